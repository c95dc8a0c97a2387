"""Price locks of the agent API that have served: how long they are kept after they expired, and forgetting them."""

from __future__ import annotations

from core.db.engine import Connection

# So long a spent or expired lock is still told apart from one that never was.
KEEP_SECONDS = 24 * 3600


async def drop_old(connection: Connection) -> int:
    """Removes locks long expired; returns how many."""
    cursor = await connection.execute(
        "DELETE FROM agent_quote WHERE expires_at < now() - make_interval(secs => %s)", (KEEP_SECONDS,)
    )
    return cursor.rowcount
