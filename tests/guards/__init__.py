"""Guards: code that only matters when something goes wrong, each with the tests that fail without it."""
