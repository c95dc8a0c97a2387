"""Compares the database with the chain, a page at a time: raw logs with a node's, every column of every row with a new
fold of the logs, sum tables with new sums, and rows with the contracts' views."""
