"""Commands for operators: `vpm status`, `vpm switch`, `vpm reindex`, and the container's health probe."""
