"""The relayer carries intents from the outbox to the chain, each exactly once, even if processes die on the way.

It alone holds keys that move money. One key on one chain is a lane, held by one process at a time:

    service                    all of it as one daemon
    keys, signing, kms         the keys, here or in a key service, and the signed bytes
    leases                     the right to write for a lane, and which process has which
    lane                       one lane at work
    policy                     limits: may a lane sign, what to pay, may a wallet's transaction be carried (pure)
    queries, preflight         what is queued, and whether the call would revert
    assigning                  number it and sign it
    store                      store it before it is sent: every write to the database, fenced by the lane's epoch
    sending                    offer the stored bytes to the nodes; raise fees and cancel
    feed, following            the chain's head and reorgs; watch what was sent until it is final
    transactions               what a lane has on its way, and what to do about it next
    nonces                     who used a nonce; make nonces agree with the chain
    pending_notices, polling   notices that could not be written at once; what Prometheus reads
    metrics                    the metrics
"""
