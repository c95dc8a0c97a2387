"""Compares every market, book, bet and payment in the tables with the contracts' own views and the token's receipts, a
page of rows at a time, and finds rows that are missing."""
