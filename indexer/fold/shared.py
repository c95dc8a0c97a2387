"""Rounds of feeds, and the measures they were computed from: one row for each log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from core.contracts.events.shared import AnswerUpdated, ReadingMeasured
from core.db.schema.index_shared import oracle_measure, oracle_round, token_authorization
from indexer.fold.rows import Write
from indexer.logs import LogRecord

APPENDED = (oracle_round, oracle_measure, token_authorization)
"""Tables whose rows name their block: a rewind deletes the rows of the blocks it takes back."""
_MEASURED = ("start_cumulative", "end_cumulative", "liquidity", "quiet")


@dataclass(frozen=True, slots=True)
class FeedRounds:
    """An emitter of rounds: the proxy it publishes for, and its phase if its round ids do not include one."""

    proxy: bytes
    phase: int | None = None

    def round_id(self, stated: int) -> int:
        return stated if self.phase is None else self.phase << 64 | stated


def rounds(chain_id: int, logs: Iterable[LogRecord], feeds: Mapping[bytes, FeedRounds]) -> list[Write]:
    """Return the rounds that these logs, in chain order, add, and their measures."""
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
