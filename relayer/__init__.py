"""The relayer carries intents from the outbox to the chain, each exactly once, whatever dies on the way.

It alone holds keys that move money. One key on one chain is a lane, held by one process at a time:

    service            all of it as one daemon
    keys, signing, kms the keys, here or in a key service, and the signed bytes
    leases             the right to write for a lane, and which process has which
    lane, lane_parts   one lane at work
    policy, fees, payers        limits: may a lane sign, what to pay, may a wallet's transaction be carried (pure)
    assigning, preflight        take from the queue, check that the call would not revert, number and sign
    store, queries, intents     store before sending: every database statement, each fenced by the lane's epoch
    sending            offer the stored bytes to the nodes
    feed, following    the chain's head and reorgs; watch what was sent until it is final
    transaction, in_flight      what a lane has on its way, and what to do about it next
    nonce_lookup, repairing, replacing   who used a nonce; make nonces agree with the chain; raise fees
    pending_notices, metrics    notices that could not be written at once; what Prometheus reads
"""
