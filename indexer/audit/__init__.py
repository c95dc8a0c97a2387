"""Compares the database with the chain, a page at a time. It compares raw logs with a node's logs, every column of
every row with a fresh fold of the logs, sum tables with fresh sums, and rows with the contracts' views."""
