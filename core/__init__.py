"""The ground every daemon stands on: configuration, chain client, money, database, logging, health.

Nothing here imports `indexer`, `keeper`, `relayer` or `api`; they import from here and meet in Postgres.
"""
