"""Compares every market, book, bet and payment in the tables with the contracts' own views and the token's receipts at
one block, and finds rows that are missing."""
