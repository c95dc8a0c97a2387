"""The relayer sends intents from the outbox to the chains, each exactly once, even if processes die on the way.

Only the relayer holds keys that move money. One key on one chain is a lane, held by one process at a time:

    service                    the daemon
    keys, signing, kms         the keys, in memory or in a key service, and the signed bytes
    leases                     which process holds which lane
    lane                       one lane, from taking its lease until it is lost
    policy                     limits: may a lane sign, what to pay, may a wallet's transaction be sent (pure)
    queries, preflight         read what is queued; check whether the call would revert
    assignment                 give it a nonce and sign it
    store                      store it before it is sent: every write to the database, fenced by the lane's epoch
    sending                    offer the stored bytes to the nodes; raise fees and cancel
    feed, following            the chain's head and reorgs; follow what was sent until it is final
    transactions               what a lane has in flight, and what to do about it next
    nonces                     which transaction used a nonce; make nonces agree with the chain
    pending_notices            notices to wallets that could not be written at once
    metrics                    the metrics
"""
