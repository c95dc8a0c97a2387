"""Projections as pure folds over typed logs: rows in, logs applied in chain order, rows to write out."""
