"""The indexer: tails the logs of every configured chain into Postgres.

Per chain one leader follows the head and writes, in one transaction a step, the blocks, the raw logs, the projections
folded from them and the cursor. `python -m indexer` runs the daemon, `python -m indexer rebuild` folds the projections
again from the raw logs, `python -m indexer audit` compares them with the contracts' views.

One step goes through these in order:

    service       the daemon: one leader for each chain
    chain         one chain: history first, then the head; undoes what a reorganization replaced
    backfill      concurrent pages of history, as wide as the node allows
    sources       which addresses and topics are followed, from the deployment file; `feeds` adds those that are listed
    fetch         the logs of some blocks, linked to their headers (`node` asks, `wire` reads headers)
    completeness  whether a node gave all logs of a block, by its bloom, another node, or receipts
    decode        a node's answer -> typed logs (`logs`), refusing what contradicts itself
    fold/         typed logs -> projection rows, pure
    store/        one step in one transaction: load, fold, write, advance; `notices` adds events of wallets
    finality      the newest block that is never undone, and the newest that we and the chain agree on

`rebuild`, `audit` and `cli` are the commands, `main` starts the daemon.
"""
