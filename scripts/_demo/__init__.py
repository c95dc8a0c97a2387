"""Demo traffic of a local stack: a few demo wallets bet on both kinds of market through the public API."""
