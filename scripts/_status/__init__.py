"""Commands for a person who operates VPM: `vpm status`, `vpm switch`, `vpm reindex`, the container's probe."""
