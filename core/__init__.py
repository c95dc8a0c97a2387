"""The ground every daemon stands on: configuration, chain client, money, database, logging, health.

Nothing here imports `indexer`, `keeper`, `relayer` or `api`; they import from here and meet in Postgres.
"""

import sys

import py_ecc  # noqa: F401

# eth-account brings py_ecc, which lets Python recurse 100,000 levels deep. A document of brackets alone would then
# overflow the stack and end the process. This is Python's own limit again.
sys.setrecursionlimit(1_000)
