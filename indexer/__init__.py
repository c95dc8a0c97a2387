"""The indexer: writes the logs of each chain to PostgreSQL. One leader per chain follows the head. Each step writes, in
one transaction, blocks, raw logs, the projections folded from them and the cursor. docs/architecture.md follows a log
from file to file. `finality` and `completeness` check what nodes report; `rebuild` and `audit` work on what is stored.
"""
