"""Events that a long transaction adds at its end: until then they are in a table of its session.

Adding locks their wallets, all at once and in order, so it comes last; and memory does not hold what a whole chain ever
told.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from core.agent.notices import log
from core.agent.notices.kinds import EventType
from core.agent.notices.log import DRAFT_COLUMNS, Draft
from core.db.engine import Connection

_NAMES = ", ".join(DRAFT_COLUMNS)
_TABLE = f"""
CREATE TEMPORARY TABLE event_aside (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {", ".join(map(" ".join, DRAFT_COLUMNS.items()))}
) ON COMMIT DROP
""".encode()
_ARRAYS = ", ".join(f"%b::{kind}[]" for kind in DRAFT_COLUMNS.values())
_PUT = f"INSERT INTO event_aside ({_NAMES}) SELECT * FROM unnest({_ARRAYS})".encode()  # noqa: S608
_NEXT = f"SELECT place, {_NAMES} FROM event_aside WHERE place > %s ORDER BY place LIMIT %s".encode()  # noqa: S608


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
            await self._connection.execute(_PUT, [[getattr(each, name) for each in drafts] for name in DRAFT_COLUMNS])

    async def append(self) -> None:
        """Adds all of them to the log."""
        rows = await (await self._connection.execute("SELECT DISTINCT wallet FROM event_aside")).fetchall()
        if rows:
            await log.append_parts(self._connection, [bytes(wallet) for (wallet,) in rows], self._parts())

    async def _parts(self) -> AsyncGenerator[Sequence[Draft]]:
        place = 0
        while rows := await (await self._connection.execute(_NEXT, (place, log.ROWS_AT_ONCE))).fetchall():
            place = rows[-1][0]
            yield [Draft(wallet, EventType(kind), *rest) for _, wallet, kind, *rest in rows]
