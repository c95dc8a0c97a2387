"""The statements of docs/operate.md that change or read rows by hand are taken by the database."""

from __future__ import annotations

import re

from core.db.engine import make_pool
from core.outbox import IntentRequest, IntentState, enqueue, read
from core.paths import REPOSITORY

STATEMENTS = re.findall(r"```sql\n(.*?)```", (REPOSITORY / "docs" / "operate.md").read_text(), re.DOTALL)


def asked(key: str, *, replay_safe: bool) -> IntentRequest:
    return IntentRequest(key=key, chain_id=1, group="relay", kind="x", to="0x" + "11" * 20, replay_safe=replay_safe)


async def test_what_a_restore_left_unsent_ends_unless_it_cannot_land_twice(fresh_database_url: str) -> None:
    (ending,) = [one for one in STATEMENTS if "UPDATE outbox_intent" in one]
    async with make_pool(fresh_database_url, size=1, autocommit=True) as pool, pool.connection() as connection:
        safe = await enqueue(connection, asked("a", replay_safe=True))
        unsafe = await enqueue(connection, asked("b", replay_safe=False))
        await connection.execute(ending.encode())
        after = [await read(connection, each.id) for each in (safe, unsafe)]
    assert [each.state for each in after if each] == [IntentState.QUEUED, IntentState.FAILED]


async def test_the_others_are_read(fresh_database_url: str) -> None:
    reading = [one for part in STATEMENTS for one in part.split(";") if one.strip().startswith("SELECT")]
    assert len(reading) == 3
    async with make_pool(fresh_database_url, size=1, autocommit=True) as pool, pool.connection() as connection:
        for one in reading:
            await connection.execute(one.encode())
