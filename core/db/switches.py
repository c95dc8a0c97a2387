"""Operator switches. Every process sees a change within two seconds, through a notification or by polling."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from core.db.channels import OPERATOR_SWITCH, Subscription
from core.db.engine import Connection, ConnectionPool
from core.log import get_logger

log = get_logger(__name__)

TRADING_PAUSED = "trading_paused"
POLL_SECONDS = 1.0


async def set_switch(connection: Connection, name: str, is_on: bool, *, reason: str, changed_by: str) -> None:
    """Turn a switch on or off. On commit, a trigger notifies all processes."""
    await connection.execute(
        "INSERT INTO operator_switch (name, is_on, reason, changed_by, changed_at) VALUES (%s, %s, %s, %s, now()) "
        "ON CONFLICT (name) DO UPDATE SET is_on = excluded.is_on, reason = excluded.reason, "
        "changed_by = excluded.changed_by, changed_at = excluded.changed_at",
        (name, is_on, reason, changed_by),
    )


async def read_switches(connection: Connection) -> Mapping[str, bool]:
    rows: list[tuple[str, bool]] = await connection.fetch_all("SELECT name, is_on FROM operator_switch")
    return dict(rows)


class SwitchWatcher:
    """The operator switches, kept up to date while `run` is running. While the database is down, the last values read
    apply."""

    def __init__(self, url: str, pool: ConnectionPool) -> None:
        self._url = url
        self._pool = pool
        self._state: Mapping[str, bool] = {}
        self._changed = Subscription()

    def is_on(self, name: str) -> bool:
        return self._state.get(name, False)

    async def refresh(self) -> None:
        async with self._pool.connection() as connection:
            self._state = await read_switches(connection)

    async def run(self) -> None:
        async with self._changed.listening(self._url, OPERATOR_SWITCH):
            while True:
                self._changed.clear()
                try:
                    await self.refresh()
                except (psycopg.Error, TimeoutError) as error:
                    log.warning("failed to read the switches", action="switches.unreadable", why=error)
                await self._changed.wait(POLL_SECONDS)
