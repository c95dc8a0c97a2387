"""Price feeds: Chainlink aggregators, our own observation feeds and local ones all announce a round the same way."""

from __future__ import annotations

import msgspec

from core.events.layout import by_topic, layout, num


class AnswerUpdated(msgspec.Struct, frozen=True, gc=False):
    """`answer` has 8 decimals. `round_id` is as the emitter counts: `phase << 64 | n` for a feed that is its own proxy,
    plain n for an aggregator behind one. `updated_at` is Unix seconds."""

    answer: int
    round_id: int
    updated_at: int


def _answer_updated(t: bytes, d: bytes) -> AnswerUpdated:
    return AnswerUpdated(num(t[32:64], signed=True), num(t[64:96]), num(d))


FEED_EVENTS = by_topic(
    layout("AnswerUpdated(int256 indexed current, uint256 indexed roundId, uint256 updatedAt)", _answer_updated)
)
