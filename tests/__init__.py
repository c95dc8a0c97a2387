"""The checks. A package, so that `tests.…` always means this folder and never a distribution that ships its own."""
