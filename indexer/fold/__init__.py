"""Projections as pure folds over typed logs: take rows, apply logs in chain order, return the rows to write."""
