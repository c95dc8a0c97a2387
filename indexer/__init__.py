"""The indexer: writes the logs of each chain to PostgreSQL. One leader per chain follows the head. Each step is one
transaction. It writes blocks, raw logs, the projections folded from the logs, and the cursor. docs/architecture.md
follows a log from file to file. `finality` and `completeness` check what nodes report; `rebuild` and `audit` work on
stored data."""
