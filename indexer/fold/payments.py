"""What became of token authorizations: which transfer each made.

The token says AuthorizationUsed and, with nothing between them, the Transfer that the authorization made; it does so in
both forms of EIP-3009. So a payment is a pair: the two logs side by side, of one transaction, one token and one payer.
Nothing else counts. One call may move a payer's money by several authorizations and also by plain transfers, and an
amount that a stranger's call moved must never be booked for a payer who signed another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from core.contracts.events.token import AuthorizationCanceled, AuthorizationUsed, Transfer
from core.db.schema.index_shared import token_authorization
from core.hexadecimal import hex_of
from indexer.errors import Contradiction
from indexer.fold.rows import RowKind, Write
from indexer.logs import LogRecord

AUTHORIZATION = RowKind(token_authorization)

PAID, UNPAIRED, CANCELED = "paid", "unpaired", "canceled"

LogPlace = tuple[int, int]


def pairs(logs: Iterable[LogRecord]) -> dict[LogPlace, LogRecord]:
    """Map the place of each AuthorizationUsed to the transfer it made. Logs come in chain order; each transfer has at
    most one log before it, so none is used twice."""
    return {(used.block, used.index): after for used, after in pairwise(logs) if _made(used, after)}


def _made(used: LogRecord, after: LogRecord) -> bool:
    return (
        isinstance(used.event, AuthorizationUsed)
        and isinstance(after.event, Transfer)
        and (after.block, after.index) == (used.block, used.index + 1)
        and after.tx == used.tx
        and after.address == used.address
        and after.event.sender == used.event.authorizer
    )


def relevant(logs: list[LogRecord]) -> list[LogRecord]:
    """Return the logs without what the token says of others' business: transfers that no authorization made, and
    authorizations used in transactions that brought us nothing from their payer."""
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


def needed(chain_id: int, logs: Iterable[LogRecord]) -> list[tuple[int, bytes, bytes]]:
    """Return the keys of the rows that the logs may not make a second time."""
    return [
        (chain_id, log.event.authorizer, log.event.nonce)
        for log in logs
        if isinstance(log.event, AuthorizationUsed | AuthorizationCanceled)
    ]


def authorizations(chain_id: int, logs: list[LogRecord], stored: Iterable[tuple[int, bytes, bytes]]) -> Write:
    """Return the rows that `relevant` logs, in chain order, add to those of `stored` keys.

    Contradiction for an authorization that is used or canceled again: that token keeps no promise this is built on.
    """
    made = pairs(logs)
    seen = set(stored)
    rows = []
    for log in logs:
        e = log.event
        if not isinstance(e, AuthorizationUsed | AuthorizationCanceled):
            continue
        key = (chain_id, e.authorizer, e.nonce)
        if key in seen:
            raise Contradiction(
                f"In block {log.block}, log {log.index}: the token used or canceled authorization {hex_of(e.nonce)} of"
                f" {hex_of(e.authorizer)} a second time."
            )
        seen.add(key)
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
