"""The agent markets as arithmetic and words: books, bets, documents. The exact mirror of the settlement wallet."""
