"""Migrates a database to this code's schema: `python -m core.db.migrate`.

An advisory lock lets one migrator run at a time. Each migration is one transaction with a short lock timeout and a few
retries, so that it does not queue behind a long read and block all later statements.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from core import log as logging
from core.config import Settings, load
from core.db.engine import DIALECT, check_database, connection_error, conninfo
from core.errors import DatabaseError, SchemaOutdated, VpmError

log = logging.get_logger(__name__)

MIGRATION_LOCK = 0x76706D00  # "vpm\0"; any number works that is no leader's key
LOCK_TIMEOUT_MS = 4_000
MIGRATOR_WAIT_SECONDS = 120
ATTEMPTS = 5


def migrate(url: str) -> tuple[str, ...]:
    """Apply the missing migrations, and return the database's head revisions. This blocks the thread."""
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            connection.execute(sa.text(f"SET lock_timeout = '{MIGRATOR_WAIT_SECONDS}s'"))
            connection.execute(sa.text(f"SELECT pg_advisory_lock({MIGRATION_LOCK})"))  # released with the connection
            connection.commit()
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return _upgrade(connection)
                except OperationalError as error:
                    if not isinstance(error.orig, psycopg.errors.LockNotAvailable) or attempt == ATTEMPTS:
                        raise
                    connection.rollback()
                    log.warning("a table is in use; trying again", action="migrate.lock_timeout", attempt=attempt)
                    time.sleep(attempt)
    except OperationalError as error:
        if isinstance(error.orig, psycopg.errors.LockNotAvailable):
            raise DatabaseError(
                "A migration failed to lock its tables.", hint="Stop long queries and try again."
            ) from None
        if isinstance(error.orig, psycopg.Error):
            raise connection_error(url, error.orig) from None
        raise
    finally:
        engine.dispose()
    raise AssertionError("unreachable")


def current(connection: Connection) -> tuple[str, ...]:
    """Return the database's head revisions. There are none before the first migration."""
    return tuple(sorted(MigrationContext.configure(connection).get_current_heads()))


def check_schema(connection: Connection) -> None:
    """Raise SchemaOutdated if the database lacks revisions of this code. A newer schema passes: migrations only add to
    the schema, so that a release can be rolled back."""
    applied = current(connection)
    if _is_newer(applied):
        return
    script = ScriptDirectory.from_config(_config())
    missing = sorted(each.revision for each in script.iterate_revisions("heads", applied or "base"))
    if missing:
        raise SchemaOutdated(f"The database schema is older than this code: it lacks {', '.join(missing)}.")


async def check_fit(settings: Settings) -> None:
    """Check that the database is usable and has the schema of this code."""
    url = settings.database_url.get_secret_value()
    await check_database(url, connect_timeout_seconds=settings.database_connect_timeout_seconds)

    def check() -> None:
        with _engine(url).connect() as connection:
            check_schema(connection)

    await asyncio.to_thread(check)


def _engine(url: str) -> sa.Engine:
    def opened() -> psycopg.Connection[Any]:
        return psycopg.connect(conninfo(url), connect_timeout=5)

    return sa.create_engine(DIALECT, creator=opened, poolclass=sa.NullPool)


def _upgrade(connection: Connection) -> tuple[str, ...]:
    before = current(connection)
    connection.rollback()
    if _is_newer(before):
        return before
    connection.execute(sa.text(f"SET lock_timeout = {LOCK_TIMEOUT_MS}"))
    connection.commit()
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "heads")
    connection.commit()
    after = current(connection)
    connection.rollback()
    if after != before:
        log.info("the schema is up to date", action="migrate.applied", heads=after)
    return after


def _is_newer(heads: tuple[str, ...]) -> bool:
    known = {each.revision for each in ScriptDirectory.from_config(_config()).walk_revisions()}
    if newer := sorted(set(heads) - known):
        log.warning("the schema is newer than this code", action="migrate.newer", heads=newer)
    return bool(newer)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def main() -> int:
    argparse.ArgumentParser(
        prog="core.db.migrate", description="Bring the database to this code's schema."
    ).parse_args()
    try:
        settings = load(Settings)
        logging.configure(settings.log_level, settings.log_format)
        print("at " + ", ".join(migrate(settings.database_url.get_secret_value())))
    except VpmError as error:
        print(error.sentence(), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
