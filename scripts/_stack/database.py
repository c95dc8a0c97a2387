"""The stack's database: the one in DATABASE_URL, or its own embedded PostgreSQL."""

from __future__ import annotations

import asyncio
import os

from scripts._local.postgres import is_ready, prepare_postgres, remove_stale_lock
from scripts._stack.options import StackError
from scripts._stack.state import State
from scripts._stack.supervisor import Supervisor


async def start_database(state: State, supervisor: Supervisor) -> tuple[str, str]:
    """Return the URL of the database, and a note for the user or an empty string."""
    given = os.environ.get("DATABASE_URL")
    if given:
        return given, ""
    server = await asyncio.to_thread(prepare_postgres, state.postgres, state.port("postgres"), max_connections=200)
    remove_stale_lock(server)
    await supervisor.start(server.plan, lambda: is_ready(server))
    return server.url(), server.note


def check_database_url() -> None:
    """Raise StackError if DATABASE_URL names a database that cannot be used."""
    url = os.environ.get("DATABASE_URL")
    if not url:
        return
    import psycopg  # noqa: PLC0415 - 10 MB that a stack with its own server does without

    try:
        with psycopg.connect(url, connect_timeout=5):
            return
    except psycopg.ProgrammingError:
        reason = "it is not a PostgreSQL URL (postgresql://user:password@host:port/name)"
    except psycopg.OperationalError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0].removeprefix("connection failed: ") if lines else "no answer"
    raise StackError(f"DATABASE_URL cannot be used: {reason}. Correct it, or unset it for an embedded PostgreSQL.")
