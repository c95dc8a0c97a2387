"""Projections as pure folds over typed logs. A fold takes rows, applies logs in chain order, and returns the rows to
write."""
