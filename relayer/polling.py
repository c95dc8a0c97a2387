"""The gauges a relayer process reads from the database at intervals; every process reports the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import psycopg

from core.db.engine import ConnectionPool
from core.log import get_logger
from core.money import USD
from relayer import metrics

log = get_logger(__name__)

QUEUES_SECONDS = 5.0
ECONOMY_SECONDS = 60.0

_QUEUES = b"""
SELECT chain_id, lane_group, count(*), extract(epoch FROM clock_timestamp() - min(state_at))::float8
FROM outbox_intent WHERE state = 'queued' GROUP BY chain_id, lane_group
"""
_GAS = b"""
SELECT l.chain_id, coalesce(sum(i.fee_wei), 0) FROM outbox_lane l LEFT JOIN outbox_intent i
ON i.lane_id = l.id AND i.mined_at IS NOT NULL AND i.mined_at > now() - interval '1 day'
WHERE l.chain_id = ANY(%s) GROUP BY 1
"""
# Fees of stakes in a book or paid out of one. A void market returns its fees, which shows a day later.
_FEES = b"""
SELECT coalesce(sum(fee), 0) FROM agent_stake
WHERE refund_reason IS NULL AND staked_at > extract(epoch FROM now() - interval '1 day')
"""


async def poll_forever(poll_once: Callable[[], Awaitable[None]], every_seconds: float, *, what: str) -> None:
    """Read the database at intervals forever. A failed read is logged as `what` and does not stop the next one."""
    while True:
        try:
            await poll_once()
        except (psycopg.Error, TimeoutError) as error:
            log.warning(f"failed to read {what}", action="relayer.poll_failed", why=error)
        await asyncio.sleep(every_seconds)


class Gauges:
    """The gauges that are read from the database. `names`: the chains' names by id."""

    def __init__(self, pool: ConnectionPool, names: Mapping[int, str]) -> None:
        self._pool = pool
        self._names = names
        self._seen: set[tuple[str, str]] = set()

    async def read_queues(self) -> None:
        """Measure how many intents wait for each group of lanes, and how long the oldest has; also for groups without
        a key."""
        async with self._pool.connection() as connection:
            rows = await connection.fetch_all(_QUEUES)
        queues = {
            (self._names[chain], group): (count, oldest) for chain, group, count, oldest in rows if chain in self._names
        }
        self._seen |= queues.keys()
        for key in self._seen:
            count, oldest = queues.get(key, (0, 0.0))  # an emptied queue is reported as empty
            metrics.QUEUED.labels(*key).set(count)
            metrics.OLDEST_QUEUED.labels(*key).set(max(0.0, oldest))

    async def read_economy(self) -> None:
        """Measure a day's gas on each chain and a day's fees of Base's bets."""
        async with self._pool.connection() as connection:
            spent = await connection.fetch_all(_GAS, (list(self._names),))
            fees = await connection.fetch_value(_FEES)
        for chain_id, wei in spent:
            metrics.GAS_DAY.labels(self._names[chain_id]).set(int(wei) / 1e18)
        metrics.FEES_DAY.set(int(fees) / USD)
