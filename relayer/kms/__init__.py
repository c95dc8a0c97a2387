"""Keys that lie in a cloud's key service and never leave it: the relayer sends it digests and gets signatures."""
