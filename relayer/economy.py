"""What a day of gas costs, and what a day of Base's bets has paid in fees: whether the one pays for the other."""

from __future__ import annotations

from collections.abc import Mapping

from core.db.engine import ConnectionPool
from core.money import USD
from relayer import measures
from relayer.watching import watch

LOOK_SECONDS = 60.0

_GAS = b"""
SELECT l.chain_id, coalesce(sum(i.fee_wei), 0) FROM outbox_lane l LEFT JOIN outbox_intent i
ON i.lane_id = l.id AND i.mined_at IS NOT NULL AND i.mined_at > now() - interval '1 day'
WHERE l.chain_id = ANY(%s) GROUP BY 1
"""
# Of stakes that are in a book, or were paid out of one; a void market gives its fees back, which shows a day later.
_FEES = b"""
SELECT coalesce(sum(fee), 0) FROM agent_stake
WHERE refund_reason IS NULL AND staked_at > extract(epoch FROM now() - interval '1 day')
"""


class Economy:
    """The endless comparison of gas and fees on some chains (name by id). Every relayer process tells the same."""

    def __init__(self, pool: ConnectionPool, names: Mapping[int, str]) -> None:
        self._pool = pool
        self._names = names

    async def run(self) -> None:
        await watch(self.look, LOOK_SECONDS, what="the day's gas", action="relayer.economy_unreadable")

    async def look(self) -> None:
        async with self._pool.connection() as connection:
            spent = await (await connection.execute(_GAS, (list(self._names),))).fetchall()
            fees = await (await connection.execute(_FEES)).fetchone()
        for chain_id, wei in spent:
            measures.GAS_DAY.labels(self._names[chain_id]).set(int(wei) / 1e18)
        assert fees is not None
        measures.FEES_DAY.set(int(fees[0]) / USD)
