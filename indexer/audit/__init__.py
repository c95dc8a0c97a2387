"""Compares every market, book, position and stake in the tables with the contracts' own views at one block."""
