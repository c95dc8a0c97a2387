"""What the specs and our own decisions demand, one id each, and which tests prove it."""
