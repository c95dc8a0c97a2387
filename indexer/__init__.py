"""The indexer: writes the logs of every configured chain to PostgreSQL.

For each chain one leader follows the head. Each of its steps writes, in one transaction, the blocks, the raw logs, the
projections folded from them and the cursor. `python -m indexer` runs the daemon, `python -m indexer rebuild` folds the
projections again from the raw logs, `python -m indexer audit` compares them with the contracts' views.

A step goes through these in order:

    service       the daemon: one leader for each chain
    chain         one chain: history first, then the head; rewinds reorganizations
    sources       which addresses and topics are followed, from the deployment file; `feeds` finds who emits rounds
    fetch         the logs of some blocks, linked to their headers, from a `node`; pages of history
    completeness  whether a node returned all logs of a block, by its bloom, another node, or receipts
    decode        a node's answer -> typed logs; rejects answers that contradict themselves
    fold/         typed logs -> projection rows, pure
    store/        a step in one transaction: load, fold, write, advance; `notices` adds wallets' events
    finality      the newest final block, and the newest block that tables and chain have in common

`rebuild`, `audit` and `cli` are the commands.
"""
