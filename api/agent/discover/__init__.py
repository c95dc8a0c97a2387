"""`GET /discover`: markets for a text. The formulae stand in `docs/discovery.md`."""
