"""Demo traffic of a local stack: a few wallets of its own bet on both kinds of market through the public door."""
