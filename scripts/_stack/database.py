"""The stack's database: the one in DATABASE_URL, or an embedded PostgreSQL of its own."""

from __future__ import annotations

import asyncio
import os

import psycopg
from psycopg import sql

from scripts._local.postgres import postgres_answers, prepare_postgres, remove_stale_lock
from scripts._stack.options import StackError
from scripts._stack.state import State
from scripts._stack.supervisor import Supervisor, child

DATABASE = "vpm"


async def start_database(state: State, supervisor: Supervisor) -> tuple[str, str]:
    """Returns the URL, and a sentence for the screen if there is something to know."""
    given = os.environ.get("DATABASE_URL")
    if given:
        return given, ""
    server = await asyncio.to_thread(prepare_postgres, state.postgres, state.port("postgres"), max_connections=200)
    remove_stale_lock(server)
    await supervisor.start(child(server.plan, lambda: postgres_answers(server), name="postgres"))
    await asyncio.to_thread(make_database, server.url())
    return server.url(DATABASE), server.note


def make_database(admin_url: str) -> None:
    """Ours, on a server that may have it already."""
    with psycopg.connect(admin_url, autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def check_database_given() -> None:
    """Whether the database in DATABASE_URL, if there is one, can be used."""
    url = os.environ.get("DATABASE_URL")
    if not url:
        return
    try:
        with psycopg.connect(url, connect_timeout=5):
            return
    except psycopg.ProgrammingError:
        reason = "it is not a PostgreSQL URL (postgresql://user:password@host:port/name)"
    except psycopg.OperationalError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0].removeprefix("connection failed: ") if lines else "no answer"
    raise StackError(f"DATABASE_URL cannot be used: {reason}. Correct it, or unset it for an embedded PostgreSQL.")
