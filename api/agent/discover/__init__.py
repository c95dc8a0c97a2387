"""`GET /discover`: markets for a text. `docs/discovery.md` has the formulas."""
