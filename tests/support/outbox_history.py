"""Reads the table `outbox_history`, in which a trigger records every change of an intent's state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core.db.engine import Connection
from core.outbox import IntentState


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    from_state: IntentState | None
    to_state: IntentState
    tx_hash: bytes | None
    reason: str | None
    at: datetime


async def history(connection: Connection, intent_id: int) -> list[HistoryEntry]:
    cursor = await connection.execute(
        "SELECT from_state, to_state, tx_hash, reason, at FROM outbox_history WHERE intent_id = %s ORDER BY id",
        (intent_id,),
    )
    return [
        HistoryEntry(IntentState(row[0]) if row[0] else None, IntentState(row[1]), row[2], row[3], row[4])
        for row in await cursor.fetchall()
    ]
