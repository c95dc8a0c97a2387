"""The indexer: tails the logs of every configured chain into Postgres.

Per chain one leader follows the head and writes, in one transaction a step, the blocks, the raw logs, the projections
folded from them and the cursor. `python -m indexer` runs the daemon, `python -m indexer rebuild` folds the projections
again from the raw logs, `python -m indexer audit` compares them with the contracts' views.

    sources   which addresses and topics are followed, from the deployment file
    node      questions to one or several nodes; the only part that talks to a chain
    decode    a node's answer -> typed logs, refusing what contradicts itself
    fold/     typed logs -> projection rows, pure
    store/    one step in one transaction: load, fold, write, advance, notify
    lineage   which block we and the chain last agree on, pure
    follow    one step at the head: link by parent hash, undo what a reorganization replaced
    backfill  concurrent pages of history, as wide as the node allows
    rebuild, audit, chain, main
"""
