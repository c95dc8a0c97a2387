"""Reads a wallet's events, for all channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.agent.notices.kinds import RESOLUTIONS, EventType, event_id
from core.db.engine import Connection

_COLUMNS = "wallet, seq, source, occurrence, type, market_id, trade_id, at_micros, payload"


@dataclass(frozen=True, slots=True)
class Notice:
    """An event of the log. at_micros: the event's time in microseconds since 1970. payload: the JSON text exactly as it
    is sent."""

    id: str
    wallet: bytes
    seq: int
    type: EventType
    market_id: str | None
    trade_id: bytes | None
    at_micros: int
    payload: str


async def next_seq(connection: Connection, wallet: bytes) -> int:
    rows = await connection.execute("SELECT next_seq FROM agent_event_wallet WHERE wallet = %s", (wallet,))
    row = await rows.fetchone()
    return 0 if row is None else int(row[0])


async def newest_seq(connection: Connection, wallet: bytes) -> int:
    """Return the sequence number of the wallet's newest event, or 0 if the wallet has no events."""
    return max(await next_seq(connection, wallet) - 1, 0)


async def notices_from(
    connection: Connection, wallet: bytes, seq: int, limit: int, *, trade_id: bytes | None = None
) -> list[Notice]:
    """Read up to `limit` of the wallet's events, in order, from sequence number `seq` on. If `trade_id` is given, read
    only the events of that trade."""
    narrowed = "" if trade_id is None else " AND trade_id = %(trade)s"
    query = (
        f"SELECT {_COLUMNS} FROM agent_event WHERE wallet = %(wallet)s AND seq >= %(seq)s{narrowed}"  # noqa: S608
        " ORDER BY seq LIMIT %(limit)s"
    )
    values = {"wallet": wallet, "seq": seq, "limit": limit, "trade": trade_id}
    return _notices(await (await connection.execute(query.encode(), values, prepare=True)).fetchall())


async def resolutions_after(connection: Connection, wallet: bytes, micros: int, limit: int) -> list[Notice]:
    """Read up to `limit` of the wallet's events that report the result of a market, from those after a moment."""
    query = (
        f"SELECT {_COLUMNS} FROM agent_event WHERE wallet = %s AND at_micros > %s AND type = ANY(%s)"  # noqa: S608
        " ORDER BY at_micros, seq LIMIT %s"
    )
    kinds = [each.value for each in RESOLUTIONS]
    return _notices(await (await connection.execute(query.encode(), (wallet, micros, kinds, limit))).fetchall())


def _notices(rows: Sequence[tuple[Any, ...]]) -> list[Notice]:
    return [
        Notice(
            event_id(source, occurrence), bytes(wallet), seq, EventType(kind), market_id, trade_id, at_micros, payload
        )
        for wallet, seq, source, occurrence, kind, market_id, trade_id, at_micros, payload in rows
    ]
