"""The indexer: writes the logs of each chain to PostgreSQL. One leader per chain follows the head; each step writes
blocks, raw logs, the projections folded from them and the cursor in one transaction. docs/architecture.md follows a log
from file to file; `finality` and `completeness` check what nodes report, `rebuild` and `audit` what is stored.
"""
