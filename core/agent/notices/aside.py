"""Events that a long transaction adds at its end: until then they are in a table of its session.

Adding locks their wallets, all at once and in order, so it comes last; and memory does not hold what a whole chain ever
told.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from core.agent.notices import log
from core.agent.notices.kinds import EventType
from core.agent.notices.log import Draft
from core.db.engine import Connection

_TABLE = b"""
CREATE TEMPORARY TABLE event_aside (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, wallet bytea NOT NULL, type text NOT NULL,
    source bytea NOT NULL, payload text NOT NULL, market_id text, trade_id bytea, chain_at bigint, block bigint
) ON COMMIT DROP
"""
_PUT = """
INSERT INTO event_aside (wallet, type, source, payload, market_id, trade_id, chain_at, block)
SELECT * FROM unnest(%b::bytea[], %b::text[], %b::bytea[], %b::text[], %b::text[], %b::bytea[], %b::bigint[],
    %b::bigint[])
"""
_NEXT = """
SELECT place, wallet, type, source, payload, market_id, trade_id, chain_at, block FROM event_aside
WHERE place > %s ORDER BY place LIMIT %s
"""


class Aside:
    """The events set aside in one transaction, in their order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def open(self) -> None:
        await self._connection.execute(_TABLE)

    async def put(self, drafts: Sequence[Draft]) -> None:
        """Those of them that are not told yet."""
        drafts = await log.untold(self._connection, drafts)
        if drafts:
            await self._connection.execute(
                _PUT,
                (
                    [each.wallet for each in drafts],
                    [each.type.value for each in drafts],
                    [each.source for each in drafts],
                    [each.payload for each in drafts],
                    [each.market_id for each in drafts],
                    [each.trade_id for each in drafts],
                    [each.chain_at for each in drafts],
                    [each.block for each in drafts],
                ),
            )

    async def append(self) -> None:
        """Adds all of them to the log."""
        rows = await (await self._connection.execute("SELECT DISTINCT wallet FROM event_aside")).fetchall()
        if rows:
            await log.append_parts(self._connection, [bytes(wallet) for (wallet,) in rows], self._parts())

    async def _parts(self) -> AsyncGenerator[Sequence[Draft]]:
        place = 0
        while rows := await (await self._connection.execute(_NEXT, (place, log.ROWS_AT_ONCE))).fetchall():
            place = rows[-1][0]
            yield [
                Draft(wallet, EventType(kind), source, payload, market_id, trade_id, chain_at, block)
                for _, wallet, kind, source, payload, market_id, trade_id, chain_at, block in rows
            ]
