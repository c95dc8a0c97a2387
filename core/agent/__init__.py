"""Agent markets: exact arithmetic that mirrors the settlement wallet, bets, and the texts of markets."""
