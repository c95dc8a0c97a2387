"""Keys that lie in AWS KMS and never leave it: the relayer sends it digests and gets signatures."""
