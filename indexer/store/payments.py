"""Checks that every stake names a payment that the token logged. A missing payment only raises an alarm, because the
contract has already booked the stake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.contracts.events import Role
from core.contracts.events.agent import RefundBooked, Staked
from core.db.engine import Connection
from core.log import get_logger
from indexer import metrics
from indexer.fold.rows import LogRecord
from indexer.fold.single import pairs
from indexer.sources import Sources

log = get_logger(__name__)

# `settle` logs the stake before it pulls the payment, `credit` after it. So the pair is in the stake's transaction or
# earlier. The values come from the logs: reading the stored stakes would double the time of agent markets' history.
_UNPAID = b"""
SELECT k.stake_id FROM unnest(%(stake_id)b::int8[], %(wallet)b::bytea[], %(nonce)b::bytea[], %(amount)b::numeric[],
  %(block)b::int8[], %(log_index)b::int4[], %(tx)b::bytea[])
  AS k (stake_id, wallet, nonce, amount, block_number, log_index, tx)
WHERE NOT EXISTS (SELECT FROM token_authorization a WHERE a.chain_id = %(chain)s AND a.authorizer = k.wallet
    AND a.nonce = k.nonce AND a.state = 'paid' AND a.recipient = %(recipient)s AND a.value = k.amount
    AND (a.tx = k.tx OR (a.block_number, a.log_index) < (k.block_number, k.log_index)))
  OR EXISTS (SELECT FROM agent_stake s WHERE s.wallet = k.wallet AND s.nonce = k.nonce AND s.stake_id <> k.stake_id)
ORDER BY k.stake_id
"""


class BookedStake(NamedTuple):
    """A booked stake or refund, and the payment that it names."""

    stake_id: int
    wallet: bytes
    nonce: bytes
    amount: int
    block: int
    log_index: int
    tx: bytes


async def unpaid_stakes(connection: Connection, sources: Sources, booked: Sequence[BookedStake]) -> list[int]:
    """Return the ids of stored stakes and refunds without a payment. A payment needs the same payer, amount and nonce,
    and it can pay for only one stake."""
    if not booked:
        return []
    columns = dict(zip(BookedStake._fields, map(list, zip(*booked, strict=True)), strict=True))
    ours = {"chain": sources.chain_id, "recipient": sources.contracts[Role.WALLET]}
    return [stake_id for (stake_id,) in await connection.fetch_all(_UNPAID, columns | ours)]


async def warn_of_unpaid(connection: Connection, sources: Sources, logs: Sequence[LogRecord]) -> None:
    """Report bookings without a payment. The contract checks its payments, so a missing payment means that the token's
    logs have changed, or that the creditor lied.

    A payment logged in the same transaction as the booking is new, and can pay for one booking. Only bookings without
    such a payment are looked up.
    """
    if Role.WALLET not in sources.contracts:
        return
    made, ours = pairs(logs), sources.contracts[Role.WALLET]
    paid = {
        (used.tx, used.event.authorizer, used.event.nonce, transfer.event.value)
        for used in logs
        if (transfer := made.get((used.block, used.index))) is not None and transfer.event.to == ours
    }
    booked = []
    for each in logs:
        if isinstance(e := each.event, (Staked, RefundBooked)):
            payment = (each.tx, e.wallet, e.nonce, e.amount)
            if payment in paid:
                paid.remove(payment)
            else:
                booked.append(BookedStake(e.stake_id, e.wallet, e.nonce, e.amount, each.block, each.index, each.tx))
    unpaid = await unpaid_stakes(connection, sources, booked)
    if unpaid:
        metrics.UNPAID_STAKES.labels(sources.name).inc(len(unpaid))
        log.error(
            "found stakes whose payments the token did not log",
            action="index.unpaid_stakes",
            chain=sources.name,
            stakes=[str(each) for each in unpaid[:20]],
        )
