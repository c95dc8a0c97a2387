"""Endpoints in PostgreSQL: registrations, claims and delivery results.

A process claims an endpoint with a lease. It renews the lease right before each delivery, and each delivery ends within
the lease. The process can change the endpoint's row only while it holds the lease. Two processes therefore never send
to an endpoint at once, and neither repeats an event that the other has sent. When a process dies, its endpoints become
free as their leases expire.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal
from uuid import UUID

from api.agent.errors import problem
from core.agent.notices import log as event_log
from core.db.engine import Connection

Status = Literal["pending_verification", "active", "disabled"]
PENDING: Final = "pending_verification"
ACTIVE: Final = "active"
DISABLED: Final = "disabled"
MAX_PER_WALLET = 10
VERIFY_SECONDS = 3_600
# Longer than one delivery may take.
LEASE_SECONDS = 15.0
DISABLE_AFTER_SECONDS = 3 * 86_400
CALLBACK_ENDS_AFTER_SECONDS = 86_400
FORGET_DISABLED_AFTER_SECONDS = 30 * 86_400
SLOW_FOR_SECONDS = 600


class Reliability(StrEnum):
    """An endpoint's recent record, which decides its share of the slots. A webhook is unproven until its handshake, and
    a callback is unproven until its first event. An endpoint is failing if its last delivery failed or was slow."""

    WORKING = "working"
    FAILING = "failing"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """A webhook or, with `trade_id`, a callback. `attempts`: failed deliveries of the event `next_seq`."""

    id: str
    wallet: bytes
    trade_id: bytes | None
    url: str
    status: Status
    secret: str | None
    challenge: str | None
    next_seq: int
    attempts: int
    failing_since: datetime | None
    last_error: str | None
    verify_until: datetime | None
    created_at: datetime
    lease: UUID | None
    reliability: Reliability

    @property
    def ref(self) -> str:
        """Return the endpoint's public name. The id is not public, since anyone who has it can delete the endpoint."""
        return hashlib.sha256(self.id.encode()).hexdigest()[:12]


_RELIABILITY = (
    "CASE WHEN w.status = 'pending_verification' THEN 'unproven'"
    " WHEN w.failing_since IS NOT NULL OR w.slow_until > now() THEN 'failing'"
    " WHEN w.trade_id IS NOT NULL AND w.next_seq = 0 THEN 'unproven' ELSE 'working' END"
)
_COLUMNS = ", ".join(
    _RELIABILITY if each.name == "reliability" else f"w.{each.name}" for each in fields(WebhookEndpoint)
)


async def record_message(connection: Connection, wallet: bytes, digest: bytes) -> bool:
    """Record a message as used. Return False if it was used before. The key is the message's digest, because a
    signature has more than one encoding."""
    await connection.execute("DELETE FROM agent_webhook_message WHERE used_at < now() - interval '1 hour'")
    done = await connection.execute(
        "INSERT INTO agent_webhook_message (wallet, digest) VALUES (%s, %s) ON CONFLICT DO NOTHING", (wallet, digest)
    )
    return done.rowcount == 1


# Locks a wallet's webhooks until the end of the transaction, so that counting and adding do not race.
_LOCK_WALLET = "pg_advisory_xact_lock(hashtextextended(encode(w.wallet, 'hex'), 9))"


async def _check_room(connection: Connection, wallet: bytes, url: str) -> None:
    """Raise 400 if another webhook to this URL would exceed the wallet's limit. Disabled webhooks do not count."""
    others = await connection.fetch_value(
        "SELECT count(*) FROM agent_webhook WHERE wallet = %s AND trade_id IS NULL AND status <> %s AND url <> %s",
        (wallet, DISABLED, url),
    )
    if others >= MAX_PER_WALLET:
        message = f"The wallet already has {MAX_PER_WALLET} webhooks, the maximum; remove one first."
        issue = {"field": "wallet", "problem": "has the most webhooks allowed"}
        raise problem("invalid_request", message, issues=[issue])


async def register(connection: Connection, wallet: bytes, url: str) -> WebhookEndpoint:
    """Register a webhook. A URL that is already registered gets a new id and secret and continues with its next event.
    If it was disabled, it continues with the wallet's next event instead."""
    lock = f"SELECT {_LOCK_WALLET} FROM (SELECT %s::bytea AS wallet) AS w"  # noqa: S608 - constants only
    await connection.execute(lock.encode(), (wallet,))
    await _check_room(connection, wallet, url)
    query = (
        f"INSERT INTO agent_webhook AS w (id, wallet, url, status, secret, challenge, next_seq, verify_until)"  # noqa: S608
        " VALUES (%(id)s, %(wallet)s, %(url)s, %(pending)s, %(secret)s, %(challenge)s,"
        " coalesce((SELECT next_seq FROM agent_event_wallet WHERE wallet = %(wallet)s), 0),"
        " now() + make_interval(secs => %(seconds)s))"
        " ON CONFLICT (wallet, url) WHERE trade_id IS NULL DO UPDATE SET id = excluded.id, status = excluded.status,"
        " secret = excluded.secret, challenge = excluded.challenge, verify_until = excluded.verify_until,"
        " next_seq = CASE WHEN w.status = %(disabled)s THEN excluded.next_seq ELSE w.next_seq END, attempts = 0,"
        " attempt_at = now(), failing_since = NULL, last_error = NULL, lease = NULL, lease_until = NULL,"
        f" created_at = now() RETURNING {_COLUMNS}"
    )
    values = {
        "id": f"wh_{secrets.token_hex(16)}",
        "wallet": wallet,
        "url": url,
        "pending": PENDING,
        "disabled": DISABLED,
        "secret": f"whsec_{secrets.token_hex(32)}",
        "challenge": secrets.token_hex(16),
        "seconds": VERIFY_SECONDS,
    }
    row = await connection.fetch_one(query.encode(), values)
    assert row is not None
    return WebhookEndpoint(*row)


async def add_callback(connection: Connection, wallet: bytes, trade_id: bytes, url: str) -> None:
    """Add a trade's callback in the transaction that accepts the trade."""
    await connection.execute(
        "INSERT INTO agent_webhook (id, wallet, trade_id, url, status) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT (trade_id, url) WHERE trade_id IS NOT NULL DO UPDATE SET created_at = now()",
        (f"cb_{secrets.token_hex(16)}", wallet, trade_id, url, ACTIVE),
    )


async def find(connection: Connection, webhook_id: str, *, lock: bool = False) -> WebhookEndpoint | None:
    """Find a webhook. If `lock` is set, lock its row and the wallet's number of webhooks until the transaction ends."""
    if lock:  # before the row, in the same order as `register`
        query = f"SELECT {_LOCK_WALLET} FROM agent_webhook w WHERE id = %s AND trade_id IS NULL"  # noqa: S608
        await connection.execute(query.encode(), (webhook_id,))
    query = f"SELECT {_COLUMNS} FROM agent_webhook w WHERE id = %s AND trade_id IS NULL"  # noqa: S608 - constants only
    row = await connection.fetch_one((query + (" FOR UPDATE" if lock else "")).encode(), (webhook_id,))
    return None if row is None else WebhookEndpoint(*row)


async def remove(connection: Connection, webhook_id: str) -> bool:
    done = await connection.execute("DELETE FROM agent_webhook WHERE id = %s AND trade_id IS NULL", (webhook_id,))
    return done.rowcount == 1


async def retry_now(connection: Connection, endpoint: WebhookEndpoint, next_seq: int) -> None:
    """Make the next delivery due now. A disabled endpoint counts towards its wallet's limit again, must repeat the
    handshake, and continues with `next_seq`. The caller must have locked `endpoint`."""
    if endpoint.status == DISABLED:
        await _check_room(connection, endpoint.wallet, endpoint.url)
        await connection.execute(
            "UPDATE agent_webhook SET status = %s, challenge = %s, next_seq = %s, attempts = 0, attempt_at = now(),"
            " failing_since = NULL, verify_until = now() + make_interval(secs => %s) WHERE id = %s",
            (PENDING, secrets.token_hex(16), next_seq, VERIFY_SECONDS, endpoint.id),
        )
    else:
        await connection.execute("UPDATE agent_webhook SET attempt_at = now() WHERE id = %s", (endpoint.id,))


_IS_DUE = "w.status <> 'disabled' AND w.attempt_at <= now() AND (w.lease IS NULL OR w.lease_until < now())"
_ANY_DUE = f"SELECT EXISTS (SELECT FROM agent_webhook w WHERE {_IS_DUE})"  # noqa: S608 - constants only
_CLAIM = f"""
WITH due AS (
    SELECT w.id FROM agent_webhook w
    WHERE {_IS_DUE} AND {_RELIABILITY} = %(reliability)s
    ORDER BY CASE %(reliability)s WHEN 'unproven' THEN w.attempts END, w.attempt_at LIMIT %(limit)s
    FOR UPDATE OF w SKIP LOCKED
)
UPDATE agent_webhook w SET lease = gen_random_uuid(), lease_until = now() + make_interval(secs => %(seconds)s)
FROM due WHERE w.id = due.id RETURNING {_COLUMNS}
"""  # noqa: S608 - constants only


async def any_due(connection: Connection) -> bool:
    """Return whether any endpoint is due. Call this before `claim`, since most events concern no endpoint."""
    return bool(await connection.fetch_value(_ANY_DUE.encode()))


async def claim(connection: Connection, limit: int, reliability: Reliability) -> list[WebhookEndpoint]:
    """Claim due endpoints for the length of a lease. Among unproven endpoints, those with the fewest attempts come
    first."""
    values = {"limit": limit, "reliability": reliability.value, "seconds": LEASE_SECONDS}
    return [WebhookEndpoint(*row) for row in await connection.fetch_all(_CLAIM.encode(), values)]


async def _update_leased(
    connection: Connection, endpoint: WebhookEndpoint, changes: str, values: Sequence[Any]
) -> bool:
    """Change a claimed endpoint's row. Return False if this process no longer holds the lease."""
    query = f"UPDATE agent_webhook SET {changes} WHERE id = %s AND lease = %s"  # noqa: S608 - constants only
    done = await connection.execute(query.encode(), (*values, endpoint.id, endpoint.lease))
    return done.rowcount == 1


_FAILED = "last_error = %s, failing_since = coalesce(failing_since, now()), lease = NULL, lease_until = NULL"
_SLOW = "slow_until = CASE WHEN %s THEN now() + make_interval(secs => %s) ELSE slow_until END"


async def renew_lease(connection: Connection, endpoint: WebhookEndpoint) -> bool:
    """Renew the lease; return False if another process has claimed the endpoint."""
    changes = "lease_until = now() + make_interval(secs => %s)"
    return await _update_leased(connection, endpoint, changes, (LEASE_SECONDS,))


async def advance(connection: Connection, endpoint: WebhookEndpoint, next_seq: int, *, slow: bool = False) -> bool:
    changes = f"next_seq = %s, attempts = 0, failing_since = NULL, last_error = NULL, {_SLOW}"
    return await _update_leased(connection, endpoint, changes, (next_seq, slow, SLOW_FOR_SECONDS))


async def skip(connection: Connection, endpoint: WebhookEndpoint, next_seq: int) -> bool:
    """Skip an event that is not for the endpoint, without counting it as a success."""
    return await _update_leased(connection, endpoint, "next_seq = %s", (next_seq,))


async def activate(connection: Connection, endpoint: WebhookEndpoint, *, slow: bool = False) -> bool:
    changes = (
        "status = %s, challenge = NULL, verify_until = NULL, attempts = 0, failing_since = NULL, last_error = NULL,"
        f" {_SLOW}"
    )
    return await _update_leased(connection, endpoint, changes, (ACTIVE, slow, SLOW_FOR_SECONDS))


async def release(connection: Connection, endpoint: WebhookEndpoint, *, after_seconds: float = 0.0) -> bool:
    """Release an endpoint that has more events to send. It can be claimed again after `after_seconds`."""
    changes = "lease = NULL, lease_until = NULL, attempt_at = now() + make_interval(secs => %s)"
    return await _update_leased(connection, endpoint, changes, (after_seconds,))


async def wait_for_events(connection: Connection, endpoint: WebhookEndpoint) -> bool:
    """Suspend an endpoint until its wallet's next event. An event that is stored during this call is not missed."""
    async with connection.transaction():
        next_seq = await event_log.lock_wallet(connection, endpoint.wallet)
        # A separate statement: one that waits for a row lock sees other tables as they were before the wait.
        await connection.execute("SELECT FROM agent_webhook WHERE id = %s FOR UPDATE", (endpoint.id,))
        return await _update_leased(
            connection,
            endpoint,
            "lease = NULL, lease_until = NULL, attempt_at = CASE WHEN (trade_id IS NULL AND next_seq < %s)"
            " OR EXISTS (SELECT FROM agent_event e WHERE e.trade_id = agent_webhook.trade_id"
            " AND e.seq >= agent_webhook.next_seq) THEN now() ELSE 'infinity' END",
            (next_seq,),
        )


async def schedule_retry(
    connection: Connection, endpoint: WebhookEndpoint, error: str, *, seconds: float, slow: bool = False
) -> bool:
    changes = f"attempts = attempts + 1, attempt_at = now() + make_interval(secs => %s), {_FAILED}, {_SLOW}"
    return await _update_leased(connection, endpoint, changes, (seconds, error, slow, SLOW_FOR_SECONDS))


async def give_up(connection: Connection, endpoint: WebhookEndpoint, seq: int, error: str, *, disable: bool) -> bool:
    """Record that delivery of an event has failed for the last time. The endpoint continues with the next event unless
    `disable` is set."""
    changes = f"next_seq = %s, attempts = 0, attempt_at = now(), status = %s, {_FAILED}"
    status = DISABLED if disable else endpoint.status
    return await _update_leased(connection, endpoint, changes, (seq + 1, status, error))


async def disable_unverified(connection: Connection, endpoint: WebhookEndpoint, error: str) -> bool:
    changes = "status = %s, challenge = NULL, last_error = %s, lease = NULL, lease_until = NULL"
    return await _update_leased(connection, endpoint, changes, (DISABLED, error))


async def delete_expired(connection: Connection) -> None:
    """Delete callbacks whose trade ended or never happened, and webhooks that were disabled long ago."""
    # Stakes alone do not decide, as they are missing while the index is rebuilt; the event log never is.
    query = """
        DELETE FROM agent_webhook w WHERE (trade_id IS NOT NULL AND EXISTS (
            SELECT FROM agent_event e WHERE e.trade_id = w.trade_id AND e.seq < w.next_seq AND e.corrects IS NULL
            AND e.type IN ('payout.paid', 'position.lost') AND e.recorded_at < now() - make_interval(secs => %(ended)s)
        )) OR (
            trade_id IS NOT NULL AND created_at < now() - make_interval(secs => %(ended)s)
            AND NOT EXISTS (SELECT FROM agent_stake s WHERE s.bet_hash = w.trade_id)
            AND NOT EXISTS (SELECT FROM agent_event e WHERE e.trade_id = w.trade_id AND e.type = 'bet.placed')
            AND NOT EXISTS (SELECT FROM agent_trade t JOIN outbox_intent i ON i.id = t.intent_id
                WHERE t.bet_hash = w.trade_id
                AND (i.state IN ('queued', 'signed', 'sent') OR i.outcome = 'succeeded'))
        ) OR (
            status = 'disabled' AND greatest(attempt_at, created_at) < now() - make_interval(secs => %(disabled)s)
        )
    """
    values = {"ended": CALLBACK_ENDS_AFTER_SECONDS, "disabled": FORGET_DISABLED_AFTER_SECONDS}
    await connection.execute(query.encode(), values)
