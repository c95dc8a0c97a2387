"""Notices that tell wallets that their transactions were signed. A notice that cannot be written at once is retried ten
times within an hour and a half. After that, it stays in the table of pending notices."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import psycopg
from psycopg.errors import LockNotAvailable

from core.agent.notices import submitted
from core.db.engine import Connection, ConnectionPool
from core.log import get_logger
from relayer import metrics
from relayer.transactions import LaneTransaction

log = get_logger(__name__)

NOTICES_SECONDS = 5.0
# Notices tried in one poll, picked at random: each may wait for its wallet's row, and must not starve the others.
_TOGETHER = 20

TRIES = 10

_NOTE = b"""
INSERT INTO outbox_pending_notice (intent_id, tx_hash) SELECT * FROM unnest(%s::bigint[], %s::bytea[])
ON CONFLICT DO NOTHING
"""
_PENDING = b"""
SELECT u.intent_id FROM outbox_pending_notice u JOIN outbox_intent i ON i.id = u.intent_id
WHERE i.chain_id = ANY(%s) AND u.tries < %s AND u.retry_at <= now() ORDER BY random() LIMIT %s
"""
_FAILED = b"""
UPDATE outbox_pending_notice
SET tries = tries + 1, retry_at = now() + make_interval(secs => %s * 2 ^ tries), problem = %s
WHERE intent_id = %s RETURNING tries
"""
_COUNTS = b"""
SELECT i.chain_id, count(*) FILTER (WHERE u.tries < %s), count(*) FILTER (WHERE u.tries >= %s)
FROM outbox_pending_notice u JOIN outbox_intent i ON i.id = u.intent_id GROUP BY 1
"""
_TAKE = b"""
DELETE FROM outbox_pending_notice u USING outbox_intent i WHERE i.id = u.intent_id
AND u.intent_id = (SELECT intent_id FROM outbox_pending_notice WHERE intent_id = %s FOR UPDATE SKIP LOCKED)
RETURNING i.chain_id, i.kind, i.data, u.tx_hash
"""


async def announce(connection: Connection, chain_id: int, transactions: Sequence[LaneTransaction]) -> None:
    """Write the notices for newly signed transactions, in the database transaction that stores the signed bytes. A
    failure to write notices must not stop that transaction."""
    notices = [
        submitted.Submitted(each.intent_id, each.call.kind, each.call.data, each.newest.hash)
        for each in transactions
        if each.call.kind in submitted.KINDS
    ]
    if not notices:
        return
    try:
        async with connection.transaction(), connection.pipeline():
            await submitted.announce(connection, chain_id, notices)
    except Exception as error:
        if not isinstance(error, LockNotAvailable):
            log.error("failed to write a notice", action="relayer.notice_failed", exc=error)
        await connection.execute(_NOTE, ([each.intent_id for each in notices], [each.tx_hash for each in notices]))


class PendingNotices:
    """The pending notices of some chains. Several relayers share the table of pending notices."""

    def __init__(self, pool: ConnectionPool, chain_ids: Collection[int]) -> None:
        self._pool = pool
        self._chain_ids = list(chain_ids)

    async def poll_once(self) -> None:
        async with self._pool.connection() as connection:
            rows = await connection.fetch_all(_PENDING, (self._chain_ids, TRIES, _TOGETHER))
        for (intent_id,) in rows:
            try:
                await self._announce(intent_id)
            except LockNotAvailable:
                continue  # another process is still adding events of this wallet
            except psycopg.OperationalError:
                raise  # the database is down, which is not the notice's fault
            except Exception as error:
                await self._failed(intent_id, error)
        await self._measure()

    async def _failed(self, intent_id: int, error: Exception) -> None:
        async with self._pool.connection() as connection:
            problem = f"{type(error).__name__}: {error}"
            tries = await connection.fetch_value(_FAILED, (NOTICES_SECONDS, problem, intent_id)) or TRIES
        if tries in (1, TRIES):
            log.error(
                "failed to write a notice", action="relayer.notice_failed", exc=error, intent=intent_id, tries=tries
            )

    async def _measure(self) -> None:
        async with self._pool.connection() as connection:
            rows = await connection.fetch_all(_COUNTS, (TRIES, TRIES))
        counts = {chain_id: (waiting, given_up) for chain_id, waiting, given_up in rows}
        for chain_id in self._chain_ids:
            for name, count in zip(("waiting", "given_up"), counts.get(chain_id, (0, 0)), strict=True):
                metrics.PENDING_NOTICES.labels(str(chain_id), name).set(count)

    async def _announce(self, intent_id: int) -> None:
        async with self._pool.connection() as connection, connection.transaction():
            for chain_id, kind, data, tx_hash in await connection.fetch_all(_TAKE, (intent_id,)):
                notice = submitted.Submitted(intent_id, kind, bytes(data), bytes(tx_hash))
                await submitted.announce(connection, chain_id, [notice])
