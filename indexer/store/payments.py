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


async def warn_of_unpaid(connection: Connection, sources: Sources, logs: Sequence[LogRecord]) -> None:
    """The contract checks what it is paid, so this means that the token no longer says what it did, or that whoever
    credits lied. The index follows the contract either way."""
    booked = [each.event.stake_id for each in logs if isinstance(each.event, (Staked, RefundBooked))]
    if Role.WALLET not in sources.contracts or not booked:
        return
    unpaid = [stake_id for stake_id, due, made in await payments(connection, sources, booked) if made != due]
    if unpaid:
        metrics.UNPAID_STAKES.labels(sources.name).inc(len(unpaid))
        log.error(
            f"{len(unpaid)} stakes name a payment that the token did not announce",
            action="index.unpaid_stakes",
            chain=sources.name,
            stakes=[str(each) for each in unpaid[:20]],
        )
