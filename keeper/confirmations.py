"""Since when every read has said the same, whichever keeper read: some reads must agree twice, some time apart, before
money is moved on their word, and some things have no other age."""

from __future__ import annotations

from dataclasses import dataclass

from core.db.engine import Connection

APART_SECONDS = 60
"""Of the chain's clock, between the first and the second read that say the same."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What was read, and since when every read has said so (Unix seconds of the chain)."""

    what: str
    since: int

    def agreed(self, what: str, now: int) -> bool:
        """Return whether a read that says `what` at chain time `now` is the second of two that agree."""
        return self.what == what and now - self.since >= APART_SECONDS


async def recall(connection: Connection, chain_id: int, subject: str) -> Confirmation | None:
    row = await connection.fetch_one(
        "SELECT what, since FROM keeper_confirmation WHERE chain_id = %s AND subject = %s", (chain_id, subject)
    )
    return None if row is None else Confirmation(*row)


async def note(connection: Connection, chain_id: int, subject: str, what: str, now: int) -> Confirmation:
    """Remember a read: a new one starts the wait afresh, the same one keeps its start (unless time went back)."""
    row = await connection.fetch_one(
        "INSERT INTO keeper_confirmation AS c (chain_id, subject, what, since) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT (chain_id, subject) DO UPDATE SET what = excluded.what, since = excluded.since "
        "WHERE c.what <> excluded.what OR c.since > excluded.since RETURNING c.what, c.since",
        (chain_id, subject, what, now),
    )
    if row is not None:
        return Confirmation(*row)
    kept = await recall(connection, chain_id, subject)
    assert kept is not None
    return kept
