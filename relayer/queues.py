"""How many intents wait for each group of lanes and how long the first has, also for groups nobody has a key for."""

from __future__ import annotations

from collections.abc import Mapping

from core.db.engine import ConnectionPool
from relayer import measures
from relayer.watching import watch

LOOK_SECONDS = 5.0

_QUEUES = b"""
SELECT chain_id, lane_group, count(*), extract(epoch FROM clock_timestamp() - min(state_at))::float8
FROM outbox_intent WHERE state = 'queued' GROUP BY chain_id, lane_group
"""


class Queues:
    """The endless measurement of some chains' queues (name by id). Every relayer process tells the same."""

    def __init__(self, pool: ConnectionPool, names: Mapping[int, str]) -> None:
        self._pool = pool
        self._names = names
        self._seen: set[tuple[str, str]] = set()

    async def run(self) -> None:
        await watch(self.look, LOOK_SECONDS, what="the queues", action="relayer.queues_unreadable")

    async def look(self) -> None:
        async with self._pool.connection() as connection:
            rows = await (await connection.execute(_QUEUES)).fetchall()
        queues = {
            (self._names[chain], group): (count, oldest) for chain, group, count, oldest in rows if chain in self._names
        }
        self._seen |= queues.keys()
        for key in self._seen:
            count, oldest = queues.get(key, (0, 0.0))  # a queue that was emptied is measured on, as empty
            measures.QUEUED.labels(*key).set(count)
            measures.OLDEST_QUEUED.labels(*key).set(max(0.0, oldest))
