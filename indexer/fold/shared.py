"""Rounds of feeds and token authorizations: every log, or pair of logs, is a row of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.db.schema.index_shared import oracle_round, token_authorization
from core.events.feed import AnswerUpdated
from core.events.token import AuthorizationUsed, Transfer
from indexer.fold.rows import Removal, Write
from indexer.logs import LogRecord

APPENDED = (oracle_round, token_authorization)
"""Tables whose rows name the block they came from; taking back blocks is deleting theirs."""


@dataclass(frozen=True, slots=True)
class FeedRounds:
    """An emitter of rounds: the proxy it prints for, and the phase it is, when its ids do not carry one."""

    proxy: bytes
    phase: int | None = None

    def round_id(self, stated: int) -> int:
        return stated if self.phase is None else self.phase << 64 | stated


def append(chain_id: int, logs: Iterable[LogRecord], feeds: Mapping[bytes, FeedRounds]) -> list[Write]:
    """The rows these logs, in chain order, add."""
    rounds = []
    authorizations = []
    transfers: dict[bytes, list[LogRecord]] = {}
    used: list[LogRecord] = []
    for log in logs:
        match e := log.event:
            case AnswerUpdated():
                feed = feeds[log.address]
                rounds.append(
                    (
                        chain_id,
                        log.block,
                        log.index,
                        feed.proxy,
                        feed.round_id(e.round_id),
                        e.answer,
                        e.updated_at,
                        log.at,
                        log.tx,
                    )
                )
            case Transfer():
                transfers.setdefault(log.tx, []).append(log)
            case AuthorizationUsed():
                used.append(log)
    for log in used:
        transfer = paid_by(log, transfers.get(log.tx, []))
        if transfer is not None:
            authorizations.append(
                (
                    chain_id,
                    log.block,
                    log.index,
                    log.address,
                    log.event.authorizer,
                    log.event.nonce,
                    transfer.event.to,
                    transfer.event.value,
                    log.at,
                    log.tx,
                )
            )
    return [Write(oracle_round, rounds, []), Write(token_authorization, authorizations, [])]


def paid_by(authorization: LogRecord, transfers: list[LogRecord]) -> LogRecord | None:
    """The transfer an authorization made: tokens announce it next to the authorization's use, in the same call."""
    candidates = [
        each
        for each in transfers
        if each.event.sender == authorization.event.authorizer and each.address == authorization.address
    ]
    return min(candidates, key=lambda each: abs(each.index - authorization.index), default=None)


def removals(chain_id: int) -> list[Removal]:
    """All rows of a chain; for a rebuild."""
    return [Removal(table, ("chain_id",), [(chain_id,)]) for table in APPENDED]
