"""The views of pool feeds: every round and measure is what the feed says of itself.

A published feed and a price feed are asked nothing: their rounds are their logs. A pool feed keeps each reading, so
every row is compared with it; and since it counts none, it is asked for its newest, for the moments that markets are
decided by, and for every step of the last day, recorded or not.
"""

from __future__ import annotations

from typing import Any

from core.chain import Contract, RpcError, RpcErrorKind
from core.contracts.abi import abi
from core.feeds.grid import grid_time
from core.hexadecimal import hex_of
from indexer.audit.pages import AuditStage, Place, Snapshot

READINGS_AT_ONCE = 500
MARKETS_AT_ONCE = 500
RECENT_STEPS = 1_440

_READINGS = b"""
SELECT r.round_id, r.answer, r.updated_at, m.quality, r.block_number, r.log_index FROM oracle_round r
LEFT JOIN oracle_measure m ON m.chain_id = r.chain_id AND m.feed = r.feed AND m.round_id = r.round_id
WHERE r.chain_id = %s AND r.feed = %s AND r.updated_at >= %s
AND (r.updated_at, r.block_number, r.log_index) > (%s, %s, %s)
ORDER BY r.updated_at, r.block_number, r.log_index LIMIT %s
"""
_MOMENTS = b"""
SELECT index, feed, start_at, ends_at FROM agent_market WHERE index > %s ORDER BY index LIMIT %s
"""
_KNOWN = b"SELECT updated_at FROM oracle_round WHERE chain_id = %s AND feed = %s AND updated_at = ANY(%s)"


def stages() -> list[AuditStage]:
    return [
        AuditStage("pool feeds", _feeds_page, of_views=True),
        AuditStage("moments of pool feeds", _moments_page, of_views=True),
    ]


async def _feeds_page(snapshot: Snapshot, after: Place | None) -> Place | None:
    """Audit the readings of one feed in time order; when none is left, look for those that it has and no row shows."""
    feeds = sorted(snapshot.sources.steps)
    if not feeds:
        return None
    name, *place = after or _start_of(feeds[0])
    feed = bytes.fromhex(name)
    if feed in snapshot.sources.steps:
        audited = _PoolFeed(snapshot, feed)
        if further := await audited.readings(place):
            return [name, *further]
        await audited.newest(highest=place[-1])
        await audited.recent()
    following = [each for each in feeds if each > feed]
    return _start_of(following[0]) if following else None


def _start_of(feed: bytes) -> Place:
    return [feed.hex(), 0, -1, -1, 0]


async def _moments_page(snapshot: Snapshot, after: Place | None) -> Place | None:
    """Audit the past moments that decide markets of pool feeds."""
    markets = (
        await snapshot.connection.fetch_all(_MOMENTS, ((after or [0])[0], MARKETS_AT_ONCE))
        if snapshot.sources.steps
        else []
    )
    for feed in sorted(snapshot.sources.steps):
        moments = {
            at for _, of, *times in markets if bytes(of) == feed for at in times if 0 < at < snapshot.now.timestamp
        }
        await _PoolFeed(snapshot, feed).holes(moments)
    return [markets[-1][0]] if markets else None


class _PoolFeed:
    """One pool feed in one snapshot."""

    def __init__(self, snapshot: Snapshot, feed: bytes) -> None:
        self._snapshot = snapshot
        self._comparison = snapshot.comparison
        self._feed = feed
        self._step = snapshot.sources.steps[feed]
        self._contract = Contract(hex_of(feed), abi("PoolFeed"))

    async def readings(self, place: Place) -> Place | None:
        """Compare a page of rows with their logs and with the contract; return where it ended, with the highest round
        so far."""
        at, block, index, highest = place
        values = (self._snapshot.sources.chain_id, self._feed, at, at, block, index, READINGS_AT_ONCE)
        rows = await self._snapshot.connection.fetch_all(_READINGS, values)
        if not rows:
            return None
        calls = [self._contract.call("getRoundData", int(row[0])) for row in rows]
        calls += [self._contract.call("qualityOf", row[2]) for row in rows]
        answers = await self._snapshot.read(*calls)
        for row, data, quality in zip(rows, answers[: len(rows)], answers[len(rows) :], strict=True):
            self._reading(row[:-2], data, quality)
        return [rows[-1][2], *rows[-1][-2:], max(highest, *(int(row[0]) for row in rows))]

    def _reading(self, row: tuple[Any, ...], data: Any, quality: Any) -> None:
        round_id, answer, updated_at, measured = row
        key = f"{hex_of(self._feed)}/{round_id}"
        said = data if isinstance(data, RpcError) else (data[0], data[1], data[3])
        self._comparison.value("reading", key, "recorded", (int(round_id), int(answer), updated_at), said)
        self._comparison.value("reading", key, "quality", measured, quality)

    async def newest(self, *, highest: int) -> None:
        (answer,) = await self._snapshot.read(self._contract.call("latestRoundData"))
        if isinstance(answer, RpcError) and answer.kind is not RpcErrorKind.REVERTED:
            raise answer
        # It reverts before there is any.
        newest = 0 if isinstance(answer, RpcError) else answer[0]
        self._comparison.value("pool feed", self._feed, "newest round", highest, newest)

    async def recent(self) -> None:
        newest = grid_time(self._snapshot.now.timestamp - 1, self._step)
        await self.holes({newest - n * self._step for n in range(RECENT_STEPS)})

    async def holes(self, moments: set[int]) -> None:
        """Compare times that matter: what the contract has recorded and no row says."""
        times = {grid_time(at, self._step) for at in moments}
        rows = await self._snapshot.connection.fetch_all(
            _KNOWN, (self._snapshot.sources.chain_id, self._feed, list(times))
        )
        unknown = sorted(at for at in times - {at for (at,) in rows} if at > 0)
        for start in range(0, len(unknown), READINGS_AT_ONCE):
            some = unknown[start : start + READINGS_AT_ONCE]
            answers = await self._snapshot.read(*(self._contract.call("qualityOf", at) for at in some))
            recorded = [self._key(at) for at, quality in zip(some, answers, strict=True) if _is_recorded(quality)]
            self._comparison.keys("reading", [], recorded)

    def _key(self, at: int) -> str:
        return f"{hex_of(self._feed)}/{at // self._step}"


def _is_recorded(quality: Any) -> bool:
    if isinstance(quality, RpcError):
        raise quality
    return bool(quality)
