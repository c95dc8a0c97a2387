"""A buffer of events that a long transaction adds to the log at its end.

Adding locks their wallets, all at once and in order, so it comes last; and the events of a whole chain do not fit in
memory, so they wait in a temporary table.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from core.agent.notices import log
from core.agent.notices.kinds import EventType
from core.agent.notices.log import DRAFT_COLUMNS, Draft
from core.db.engine import Connection

_NAMES = ", ".join(DRAFT_COLUMNS)
_TABLE = f"""
CREATE TEMPORARY TABLE event_buffer (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {", ".join(map(" ".join, DRAFT_COLUMNS.items()))}
) ON COMMIT DROP
""".encode()
_ARRAYS = ", ".join(f"%b::{kind}[]" for kind in DRAFT_COLUMNS.values())
_PUT = f"INSERT INTO event_buffer ({_NAMES}) SELECT * FROM unnest({_ARRAYS})".encode()  # noqa: S608
_NEXT = f"SELECT place, {_NAMES} FROM event_buffer WHERE place > %s ORDER BY place LIMIT %s".encode()  # noqa: S608


class EventBuffer:
    """The events buffered in one transaction, in order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def open(self) -> None:
        await self._connection.execute(_TABLE)

    async def put(self, drafts: Sequence[Draft]) -> None:
        """Buffer the drafts that are not in the log yet."""
        drafts = await log.untold(self._connection, drafts)
        if drafts:
            await self._connection.execute(_PUT, [[getattr(each, name) for each in drafts] for name in DRAFT_COLUMNS])

    async def append(self) -> None:
        """Add all buffered events to the log."""
        rows = await (await self._connection.execute("SELECT DISTINCT wallet FROM event_buffer")).fetchall()
        if rows:
            await log.append_parts(self._connection, [bytes(wallet) for (wallet,) in rows], self._parts())

    async def _parts(self) -> AsyncGenerator[Sequence[Draft]]:
        place = 0
        while rows := await (await self._connection.execute(_NEXT, (place, log.ROWS_AT_ONCE))).fetchall():
            place = rows[-1][0]
            yield [Draft(wallet, EventType(kind), *rest) for _, wallet, kind, *rest in rows]
