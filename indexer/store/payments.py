"""Whether every stake names a payment that the token made: an alarm, since the contract has booked it all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.contracts.events import Role
from core.contracts.events.agent import RefundBooked, Staked
from core.db.engine import Connection
from core.log import get_logger
from indexer import metrics
from indexer.fold.payments import PAID
from indexer.logs import LogRecord
from indexer.sources import Sources

log = get_logger(__name__)

# `settle` announces the stake before it pulls the payment, `credit` comes after it: so the pair is in the stake's own
# transaction, or before it.
# Asked of every page while history is read, so it takes what the logs hold: read from the stored stakes it makes
# the history of agents' markets take twice as long.
_UNPAID = b"""
SELECT k.stake_id FROM unnest(%(ids)b::int8[], %(wallets)b::bytea[], %(nonces)b::bytea[], %(amounts)b::numeric[],
  %(blocks)b::int8[], %(indexes)b::int4[], %(txs)b::bytea[])
  AS k (stake_id, wallet, nonce, amount, block_number, log_index, tx)
WHERE NOT EXISTS (SELECT FROM token_authorization a WHERE a.chain_id = %(chain)s AND a.authorizer = k.wallet
    AND a.nonce = k.nonce AND a.state = 'paid' AND a.recipient = %(recipient)s AND a.value = k.amount
    AND (a.tx = k.tx OR (a.block_number, a.log_index) < (k.block_number, k.log_index)))
  OR EXISTS (SELECT FROM agent_stake s WHERE s.wallet = k.wallet AND s.nonce = k.nonce AND s.stake_id <> k.stake_id)
ORDER BY k.stake_id
"""

_PAYMENTS = b"""
SELECT s.stake_id, s.amount, a.state, a.value, a.recipient,
  a.tx = s.staked_tx OR (a.block_number, a.log_index) < (s.staked_block, s.staked_log_index),
  (SELECT count(*) FROM agent_stake o WHERE o.wallet = s.wallet AND o.nonce = s.nonce)
FROM agent_stake s LEFT JOIN token_authorization a ON a.chain_id = %b AND a.authorizer = s.wallet AND a.nonce = s.nonce
WHERE s.stake_id = ANY(%b) ORDER BY s.stake_id
"""


async def payments(
    connection: Connection, sources: Sources, stakes: Sequence[int]
) -> list[tuple[int, tuple[Any, ...], tuple[Any, ...]]]:
    """Return for each stake or refund the payment that it must have, and what the token's logs make of the one that it
    names: state, value, recipient, whether it came in time, and how many stakes name it."""
    recipient = sources.contracts[Role.WALLET]
    rows = await (await connection.execute(_PAYMENTS, (sources.chain_id, list(stakes)))).fetchall()
    return [
        (stake_id, (PAID, amount, recipient, True, 1), (state, value, paid_to, in_time, count))
        for stake_id, amount, state, value, paid_to, in_time, count in rows
    ]


async def unpaid_stakes(connection: Connection, sources: Sources, logs: Sequence[LogRecord]) -> list[int]:
    """Return the stakes and refunds that these stored logs booked for a payment which no pair of the token's logs
    makes: of another payer, amount or nonce, or one that paid for another stake already."""
    if Role.WALLET not in sources.contracts:
        return []
    booked = [each for each in logs if isinstance(each.event, (Staked, RefundBooked))]
    if not booked:
        return []
    rows = await connection.execute(
        _UNPAID,
        {
            "chain": sources.chain_id,
            "recipient": sources.contracts[Role.WALLET],
            "ids": [each.event.stake_id for each in booked],
            "wallets": [each.event.wallet for each in booked],
            "nonces": [each.event.nonce for each in booked],
            "amounts": [each.event.amount for each in booked],
            "blocks": [each.block for each in booked],
            "indexes": [each.index for each in booked],
            "txs": [each.tx for each in booked],
        },
    )
    return [stake_id for (stake_id,) in await rows.fetchall()]


async def warn_of_unpaid(connection: Connection, sources: Sources, logs: Sequence[LogRecord]) -> None:
    """The contract checks what it is paid, so this means that the token no longer says what it did, or that whoever
    credits lied. The index follows the contract either way."""
    unpaid = await unpaid_stakes(connection, sources, logs)
    if unpaid:
        metrics.UNPAID_STAKES.labels(sources.name).inc(len(unpaid))
        log.error(
            f"{len(unpaid)} stakes name a payment that the token did not announce",
            action="index.unpaid_stakes",
            chain=sources.name,
            stakes=[str(each) for each in unpaid[:20]],
        )
