"""Keys that stay in AWS KMS: the relayer sends digests and gets signatures."""
