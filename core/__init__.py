"""Code that every daemon shares: configuration, chain client, money, database, logging, health.

This package imports none of `indexer`, `keeper`, `relayer` and `api`. Those packages import this one, and communicate
with one another through Postgres.
"""

import sys

import py_ecc  # noqa: F401

# eth-account imports py_ecc, which raises the recursion limit to 100,000. A JSON document of nothing but brackets could
# then overflow the C stack and crash the process, so restore Python's default.
sys.setrecursionlimit(1_000)
