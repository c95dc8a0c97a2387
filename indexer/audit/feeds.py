"""The audit of feeds: every round and measure follows from a raw log, and is what a pool feed says of itself.

A published feed and a price feed are asked nothing: their rounds are their logs. A pool feed keeps each reading, so
every row is held to it; and since it counts none, it is asked for its newest, for the moments that markets are decided
by, and for every step of the last day, recorded or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from core.addresses import address_text
from core.chain import ChainClient, Contract, RpcError, RpcErrorKind
from core.contracts.abi import abi
from core.contracts.events.feed import FEED_EVENTS, AnswerUpdated, ReadingMeasured
from core.db.schema.index_shared import oracle_measure, oracle_round
from core.feeds.grid import grid_time
from indexer.audit.compare import Comparison
from indexer.sources import Sources
from indexer.store.tables import Connection

READINGS_AT_ONCE = 500
RECENT_STEPS = 1_440

_TABLES = {"AnswerUpdated": ("round", oracle_round.name), "ReadingMeasured": ("measure", oracle_measure.name)}

_MISSING = """
SELECT l.block_number, l.log_index FROM chain_log l WHERE l.chain_id = %(chain)s
AND substring(l.topics FROM 1 FOR 32) = %(topic)s AND NOT EXISTS (SELECT FROM {table} r
  WHERE r.chain_id = l.chain_id AND r.block_number = l.block_number AND r.log_index = l.log_index)
"""
_BASELESS = """
SELECT r.block_number, r.log_index FROM {table} r WHERE r.chain_id = %(chain)s AND NOT EXISTS (
  SELECT FROM chain_log l WHERE r.chain_id = l.chain_id AND r.block_number = l.block_number
  AND r.log_index = l.log_index)
"""
_READINGS = b"""
SELECT r.round_id, r.answer, r.updated_at, l.topics, l.data, m.round_id, m.quality, m.start_cumulatives,
  m.end_cumulatives, m.liquidity, m.quiet, k.topics, k.data
FROM oracle_round r JOIN chain_log l USING (chain_id, block_number, log_index)
LEFT JOIN oracle_measure m ON m.chain_id = r.chain_id AND m.feed = r.feed AND m.round_id = r.round_id
LEFT JOIN chain_log k ON k.chain_id = m.chain_id AND k.block_number = m.block_number AND k.log_index = m.log_index
WHERE r.chain_id = %s AND r.feed = %s AND r.round_id > %s ORDER BY r.round_id LIMIT %s
"""
_MOMENTS = b"""
SELECT ends_at FROM agent_market WHERE feed = %(feed)s AND ends_at < %(now)s
UNION SELECT start_at FROM agent_market WHERE feed = %(feed)s AND start_at > 0 AND start_at < %(now)s
"""


async def audit_feeds(
    connection: Connection, client: ChainClient, sources: Sources, block: str, comparison: Comparison
) -> None:
    """`block` is the cursor's hash."""
    for topic, layout in FEED_EVENTS.items():
        what, table = _TABLES[layout.name]
        values = {"chain": sources.chain_id, "topic": topic}
        comparison.keys(what, [], await _places(connection, _MISSING.format(table=table), values))
        comparison.keys(what, await _places(connection, _BASELESS.format(table=table), values), [])
    for feed, step in sources.steps.items():
        await _PoolFeed(connection, client, sources, block, comparison, feed, step).audit()


class _PoolFeed:
    """One pool feed at one block."""

    def __init__(
        self,
        connection: Connection,
        client: ChainClient,
        sources: Sources,
        block: str,
        comparison: Comparison,
        feed: bytes,
        step: int,
    ) -> None:
        self._connection = connection
        self._client = client
        self._chain_id = sources.chain_id
        self._block = block
        self._comparison = comparison
        self._feed = feed
        self._step = step
        self._contract = Contract(address_text(feed), abi("PoolFeed"))

    async def audit(self) -> None:
        last = await self._rows()
        await self._newest(last)
        await self._holes()

    async def _rows(self) -> int:
        """Every row against its logs and against the contract; the highest round there is, 0 for none."""
        last = 0
        while rows := await self._page(last):
            calls = [self._contract.call("getRoundData", int(row[0])) for row in rows]
            calls += [self._contract.call("qualityOf", row[2]) for row in rows]
            answers = await self._client.read_many(calls, self._block)
            for row, data, quality in zip(rows, answers[: len(rows)], answers[len(rows) :], strict=True):
                self._reading(row, data, quality)
            last = int(rows[-1][0])
        return last

    async def _page(self, after: int) -> list[tuple[Any, ...]]:
        cursor = await self._connection.execute(_READINGS, (self._chain_id, self._feed, after, READINGS_AT_ONCE))
        return await cursor.fetchall()

    def _reading(self, row: tuple[Any, ...], data: Any, quality: Any) -> None:
        round_id, answer, updated_at, topics, raw, measured_id, *measure, k_topics, k_data = row
        key = f"{address_text(self._feed)}/{round_id}"
        ours = (int(round_id), int(answer), updated_at)
        logged = _decoded(topics, raw)
        assert isinstance(logged, AnswerUpdated)
        self._comparison.value("round", key, "log", ours, (logged.round_id, logged.answer, logged.updated_at))
        said = data if isinstance(data, RpcError) else (data[0], data[1], data[3])
        self._comparison.value("reading", key, "recorded", ours, said)
        self._comparison.value("reading", key, "quality", measure[0], quality)
        if measured_id is None or k_topics is None:
            self._comparison.keys("measure", [], [key])
            return
        stated = _decoded(k_topics, k_data)
        assert isinstance(stated, ReadingMeasured)
        expected = (
            stated.round_id,
            stated.quality,
            [each.start_cumulative for each in stated.measures],
            [each.end_cumulative for each in stated.measures],
            [each.liquidity for each in stated.measures],
            [each.quiet for each in stated.measures],
        )
        measure[3] = [int(each) for each in measure[3]]
        self._comparison.value("measure", key, "log", (int(measured_id), *measure), expected)

    async def _newest(self, last: int) -> None:
        (answer,) = await self._client.read_many([self._contract.call("latestRoundData")], self._block)
        if isinstance(answer, RpcError) and answer.kind is not RpcErrorKind.REVERTED:
            raise answer
        # It reverts before there is any.
        newest = 0 if isinstance(answer, RpcError) else answer[0]
        self._comparison.value("pool feed", self._feed, "newest round", last, newest)

    async def _holes(self) -> None:
        """What the contract has recorded of the times that matter, and no row says so."""
        header = await self._client.block(self._block)
        assert header is not None
        newest = grid_time(header.timestamp - 1, self._step)
        times = {newest - n * self._step for n in range(RECENT_STEPS)}
        values = {"feed": self._feed, "now": header.timestamp}
        moments = await (await self._connection.execute(_MOMENTS, values)).fetchall()
        times |= {grid_time(moment, self._step) for (moment,) in moments}
        cursor = await self._connection.execute(
            b"SELECT updated_at FROM oracle_round WHERE chain_id = %s AND feed = %s AND updated_at = ANY(%s)",
            (self._chain_id, self._feed, list(times)),
        )
        known = {at for (at,) in await cursor.fetchall()}
        await self._compare_holes(sorted(at for at in times - known if at > 0))

    async def _compare_holes(self, times: list[int]) -> None:
        for start in range(0, len(times), READINGS_AT_ONCE):
            some = times[start : start + READINGS_AT_ONCE]
            answers = await self._client.read_many([self._contract.call("qualityOf", at) for at in some], self._block)
            recorded = [self._key(at) for at, quality in zip(some, answers, strict=True) if _is_recorded(quality)]
            self._comparison.keys("reading", [], recorded)

    def _key(self, at: int) -> str:
        return f"{address_text(self._feed)}/{at // self._step}"


def _is_recorded(quality: Any) -> bool:
    if isinstance(quality, RpcError):
        raise quality
    return bool(quality)


def _decoded(topics: bytes, data: bytes) -> Any:
    return FEED_EVENTS[bytes(topics[:32])].decode(bytes(topics), bytes(data))


async def _places(connection: Connection, query: str, values: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    return await (await connection.execute(query.encode(), values)).fetchall()
