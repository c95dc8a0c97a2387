"""Agent markets: exact arithmetic that mirrors the settlement wallet, the hashes of bets, and the texts about
markets."""
