"""The relayer: carries intents from the outbox to the chain, each exactly once, whatever dies on the way.

It alone holds keys that move money. One key on one chain is a lane, held by one process at a time:

    keys, signing      the key and the bytes (pure)
    fees, nonces, standing, transaction   decisions: what to pay, whose nonces are, may it sign, what to do next (pure)
    payers             may a stranger's transaction be carried, by what those of its wallet have cost us (pure)
    store              every database statement, each fenced by the lane's epoch
    lease, leases      the right to write for a lane, and which process has which
    lane_transactions  everything of a lane that is on its way, in memory
    feed               the head, the fee market and reorgs of one chain
    preflight          would it revert, and how much gas
    lane, assigning, sending   one lane at work: take from the queue, check, sign and store, send
    following, receipts        watch what was sent until it is final
    repairing, replacing       mend the lane's nonces, and replace what stands still (both sign by lane_signer)
    queues, untold, economy   what waits, what is yet to be told, and what a day of gas costs
    service            all of it as one daemon
"""
