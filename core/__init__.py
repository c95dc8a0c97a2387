"""Code shared by all daemons: configuration, chain client, money, database, logging, health.

The daemons import this package, never the reverse. They communicate with one another through PostgreSQL.
"""

import sys

import py_ecc  # noqa: F401

# eth-account imports py_ecc, which raises the recursion limit to 100,000. Deeply nested JSON could then overflow the C
# stack and crash the process, so restore Python's default.
sys.setrecursionlimit(1_000)
