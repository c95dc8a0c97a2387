"""Compares the database with the chain, a page at a time: raw logs with what a node gives again, every column of every
row with what the logs make, totals with sums, and the rows with the contracts' own views."""
