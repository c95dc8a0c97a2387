"""Events that occur on both chains: those of feeds, stablecoins and the pauser."""

from __future__ import annotations

import msgspec

from core.contracts.abi import abi
from core.contracts.events.layout import WORD, UndecodableLog, by_topic, layout, num

# ---------------------------------------------------------------- Feeds


class AnswerUpdated(msgspec.Struct, frozen=True, gc=False):
    """A new round of a feed. `answer` has 8 decimals; `updated_at` is in Unix seconds. `round_id` is the emitter's own
    round number: `phase << 64 | n` for a feed that is its own proxy, and `n` for an aggregator behind a proxy."""

    answer: int
    round_id: int
    updated_at: int


class Measure(msgspec.Struct, frozen=True, gc=False):
    """One pool's measurements over the window: its tick cumulatives from `observe`, its harmonic mean liquidity, and
    the seconds from its last observation to the end of the window (`quiet`)."""

    start_cumulative: int
    end_cumulative: int
    liquidity: int
    quiet: int


class ReadingMeasured(msgspec.Struct, frozen=True):
    """The inputs of a pool feed's round, with one measure per pool. `quality` is an IPoolFeed.Quality."""

    round_id: int
    quality: int
    measures: tuple[Measure, ...]


_MEASURE_BYTES = 4 * WORD


def _reading_measured(t: bytes, d: bytes) -> ReadingMeasured:
    offset = num(d[32:64])
    start = offset + WORD
    count = num(d[offset:start])
    if start > len(d) or start + count * _MEASURE_BYTES > len(d):
        raise UndecodableLog(f"ReadingMeasured: {count} measures do not fit into {len(d)} bytes of data.")
    places = range(start, start + count * _MEASURE_BYTES, _MEASURE_BYTES)
    return ReadingMeasured(num(t[32:64]), num(d[:32]), tuple(_measure(d[at : at + _MEASURE_BYTES]) for at in places))


def _measure(d: bytes) -> Measure:
    return Measure(num(d[:32], signed=True), num(d[32:64], signed=True), num(d[64:96]), num(d[96:128]))


_FEED = abi("PoolFeed").events

FEED_EVENTS = by_topic(
    layout(_FEED["AnswerUpdated"], AnswerUpdated),
    layout(_FEED["ReadingMeasured"], _reading_measured),
)


# ---------------------------------------------------------------- Stablecoins


class Transfer(msgspec.Struct, frozen=True, gc=False):
    sender: bytes
    to: bytes
    value: int


class AuthorizationUsed(msgspec.Struct, frozen=True, gc=False):
    authorizer: bytes
    nonce: bytes


class AuthorizationCanceled(msgspec.Struct, frozen=True, gc=False):
    authorizer: bytes
    nonce: bytes


_TOKEN = abi("IERC3009").events

TRANSFER = layout(_TOKEN["Transfer"], Transfer)
AUTHORIZATION_USED = layout(_TOKEN["AuthorizationUsed"], AuthorizationUsed)
AUTHORIZATION_CANCELED = layout(_TOKEN["AuthorizationCanceled"], AuthorizationCanceled)

TOKEN_EVENTS = by_topic(TRANSFER, AUTHORIZATION_USED, AUTHORIZATION_CANCELED)


# ---------------------------------------------------------------- Pauser


PAUSER = b"g"
"""Entity: the guardians of a chain's pauser and their actions."""


class GuardianSet(msgspec.Struct, frozen=True, gc=False):
    account: bytes
    allowed: bool


class PausedBy(msgspec.Struct, frozen=True, gc=False):
    account: bytes


class ResumedBy(msgspec.Struct, frozen=True, gc=False):
    account: bytes


def _by_pauser(_t: bytes, _d: bytes) -> bytes:
    return PAUSER


_PAUSER = abi("Pauser").events

PAUSER_EVENTS = by_topic(
    layout(_PAUSER["GuardianSet"], GuardianSet, _by_pauser),
    layout(_PAUSER["PausedBy"], PausedBy, _by_pauser),
    layout(_PAUSER["ResumedBy"], ResumedBy, _by_pauser),
)
