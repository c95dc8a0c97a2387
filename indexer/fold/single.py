"""Rows made from single logs: feeds' rounds with their measures, and token authorizations with the transfers they
caused.

In both forms of EIP-3009 the token logs AuthorizationUsed and, directly after it, the Transfer that the authorization
caused. So a payment is a pair of adjacent logs with the same transaction, token and payer. Nothing else counts as a
payment, because one call may move a payer's money by several authorizations and plain transfers. If a payer signed one
amount, a different amount that a stranger's call moved must never be booked for that payer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from core.contracts.events.shared import (
    AnswerUpdated,
    AuthorizationCanceled,
    AuthorizationUsed,
    ReadingMeasured,
    Transfer,
)
from core.db.schema.index_shared import oracle_measure, oracle_round, token_authorization
from indexer.fold.rows import LogRecord, RowKind, Write
from indexer.sources import FeedRounds

APPENDED = (oracle_round, oracle_measure, token_authorization)
"""Tables whose rows name their block. A rewind deletes the rows of the removed blocks."""
_MEASURED = ("start_cumulative", "end_cumulative", "liquidity", "quiet")


def rounds(chain_id: int, logs: Iterable[LogRecord], feeds: Mapping[bytes, FeedRounds]) -> list[Write]:
    rows: list[tuple[Any, ...]] = []
    measured: list[tuple[Any, ...]] = []
    for log in logs:
        if isinstance(e := log.event, AnswerUpdated):
            feed = feeds[log.address]
            round_id = feed.round_id(e.round_id)
            rows.append((chain_id, log.block, log.index, feed.proxy, round_id, e.answer, e.updated_at, log.at, log.tx))
        elif isinstance(e := log.event, ReadingMeasured):
            each, pools = feeds[log.address], e.measures
            columns = [[getattr(pool, name) for pool in pools] for name in _MEASURED]
            round_id = each.round_id(e.round_id)
            measured.append((chain_id, log.block, log.index, each.proxy, round_id, e.quality, *columns))
    return [Write(oracle_round, rows, []), Write(oracle_measure, measured, [])]


AUTHORIZATION = RowKind(token_authorization)

PAID, UNPAIRED, CANCELED = "paid", "unpaired", "canceled"

LogPlace = tuple[int, int]


def pairs(logs: Iterable[LogRecord]) -> dict[LogPlace, LogRecord]:
    """Map the place of each AuthorizationUsed to the transfer it caused. Logs are in chain order, so no transfer is
    paired twice."""
    return {(used.block, used.index): after for used, after in pairwise(logs) if _is_pair(used, after)}


def _is_pair(used: LogRecord, after: LogRecord) -> bool:
    return (
        isinstance(used.event, AuthorizationUsed)
        and isinstance(after.event, Transfer)
        and (after.block, after.index) == (used.block, used.index + 1)
        and after.tx == used.tx
        and after.address == used.address
        and after.event.sender == used.event.authorizer
    )


def relevant(logs: list[LogRecord]) -> list[LogRecord]:
    """Drop unneeded token logs: transfers that no authorization caused, and authorizations from transactions in which
    the payer paid our contracts nothing."""
    transfers = {(log.block, log.index) for log in pairs(logs).values()}
    payers = {(log.tx, log.event.sender) for log in logs if isinstance(log.event, Transfer)}
    kept = []
    for log in logs:
        match e := log.event:
            case Transfer() if (log.block, log.index) not in transfers:
                continue
            case AuthorizationUsed() if (log.tx, e.authorizer) not in payers:
                continue
        kept.append(log)
    return kept


def authorizations(chain_id: int, logs: list[LogRecord]) -> Write:
    """Return the rows to add for logs from `relevant`, which are in chain order."""
    made = pairs(logs)
    rows = []
    for log in logs:
        e = log.event
        if not isinstance(e, AuthorizationUsed | AuthorizationCanceled):
            continue
        transfer = made.get((log.block, log.index))
        used = UNPAIRED if transfer is None else PAID
        rows.append(
            AUTHORIZATION.new(
                chain_id=chain_id,
                authorizer=e.authorizer,
                nonce=e.nonce,
                token=log.address,
                state=CANCELED if isinstance(e, AuthorizationCanceled) else used,
                recipient=None if transfer is None else transfer.event.to,
                value=None if transfer is None else transfer.event.value,
                block_number=log.block,
                log_index=log.index,
                at=log.at,
                tx=log.tx,
            )
        )
    return AUTHORIZATION.write(rows)
