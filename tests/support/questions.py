"""A test's queries while it waits, over one connection. Opening a connection costs PostgreSQL as much as two hundred
short queries."""

from __future__ import annotations

import threading
from typing import Any

import psycopg

from core.db.engine import conninfo


class Asking:
    """A connection for queries from any thread. If it was lost, it is opened again, once per query."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._connection: psycopg.Connection | None = None

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            if self._connection is not None:
                try:
                    return self._connection.execute(query.encode(), values).fetchall()
                except psycopg.OperationalError:
                    if not self._connection.closed:
                        raise
                    self._let_go()
            self._connection = psycopg.connect(
                # No statement is prepared: a plan could be older than a test's changes to a table.
                conninfo(self._url), autocommit=True, connect_timeout=5, prepare_threshold=None
            )  # fmt: skip
            return self._connection.execute(query.encode(), values).fetchall()

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_asking: dict[str, Asking] = {}


def rows(url: str, query: str, *values: object) -> list[tuple[Any, ...]]:
    return _asking.setdefault(url, Asking(url)).rows(query, *values)


def let_go(url: str) -> None:
    """Close the connection before the database is dropped."""
    if (asking := _asking.pop(url, None)) is not None:
        asking.close()
