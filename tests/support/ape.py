"""ape's command line as a module, so that a nursery can import what it imports (tests/support/nursery.py)."""

from __future__ import annotations

from ape._cli import cli

if __name__ == "__main__":
    cli(prog_name="ape")
