"""Agent markets: the settlement wallet's arithmetic, bet hashes, and the texts that describe markets."""
