"""The relayer sends intents from the outbox to the chains, each exactly once, even if processes die on the way.

Only the relayer holds keys that move money. One key on one chain is a lane, held by one process at a time:

    service              the daemon
    leases               which process holds which lane
    lane                 one lane, from taking its lease until the lease is lost
    queued               read queued intents; check whether their calls would revert
    assignment           give each intent a nonce
    signing, kms         sign the transaction, with a key in memory or in a key service
    store                store it before it is sent: every write to the database, fenced by the lane's epoch
    sending              offer the stored bytes to the nodes; raise fees and cancel
    feed, following      the chain's head and reorgs; follow what was sent until it is final
    nonces               which transaction used a nonce; make nonces agree with the chain
    transactions, policy what a lane has in flight, and what to do next; its limits (pure)
    pending_notices      notices to wallets that could not be written at once
    metrics              the metrics
"""
