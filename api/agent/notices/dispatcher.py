"""Sends the event log to webhooks and callbacks. It runs in every API process; row locks divide the work.

An endpoint gets its events in order: an event is sent only after the endpoint has accepted the previous one or the
dispatcher has given up on it. Failing or slow endpoints may use at most a quarter of the slots. The same limit applies
to endpoints that have never accepted an event. Neither group can therefore delay endpoints that work.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson

from api.agent.bodies.events import endpoint_event, event_body
from api.agent.facts import Links
from api.agent.notices import endpoints as store
from api.agent.notices.endpoints import Reliability, WebhookEndpoint
from api.agent.notices.sending import MAX_SECONDS, AddressBusy, DeliveryResult, WebhookSender
from api.database import DATABASE_ERRORS
from core.agent.notices import log as event_log
from core.agent.notices.log import Draft, EventType, Notice, newest_seq, notices_from, source_of
from core.db.channels import AGENT_EVENT, Subscription
from core.db.engine import ConnectionPool
from core.log import get_logger
from core.money import to_json
from core.service.cancelling import cancel_and_wait

log = get_logger(__name__)

# Seconds between attempts: nine retries over slightly more than 24 hours.
RETRIES = (10, 60, 300, 1_200, 3_600, 7_200, 14_400, 25_200, 36_000)
# Every delay is extended by up to this share, so that endpoints that failed together do not return together.
JITTER = 0.2
# The last one is repeated until the hour is over.
VERIFY_RETRIES = (2, 5, 10, 30, 60, 120, 300, 600)

AT_ONCE = 32
MAX_AT_ONCE = {Reliability.WORKING: AT_ONCE, Reliability.FAILING: AT_ONCE // 4, Reliability.UNPROVEN: AT_ONCE // 4}
# The most events for one endpoint before others have their turn.
IN_A_ROW = 100
PAGE = 20
POLL_SECONDS = 1.0
TIDY_SECONDS = 3_600.0


class _LeaseTooShort(Exception):
    """Too little of the lease is left: another process could start sending before this delivery ends."""


class Dispatcher:
    """Sends events to webhooks. `retries`: the seconds to wait before each retry."""

    def __init__(
        self,
        url: str,
        pool: ConnectionPool,
        sender: WebhookSender,
        links: Links,
        *,
        retries: Sequence[float] = RETRIES,
        disable_after_seconds: float = store.DISABLE_AFTER_SECONDS,
    ) -> None:
        self._url = url
        self._pool = pool
        self._sender = sender
        self._links = links
        self._retries = retries
        self._disable_after = timedelta(seconds=disable_after_seconds)
        self._signals = Subscription()
        self._working: dict[asyncio.Task[None], Reliability] = {}  # deliveries in progress

    async def run(self) -> None:
        try:
            async with self._signals.listening(self._url, AGENT_EVENT):
                while True:
                    self._signals.clear()
                    if not await self._claim():
                        await self._signals.wait(POLL_SECONDS)
        finally:
            await cancel_and_wait(*self._working)
            await self._sender.aclose()

    async def tidy(self) -> None:
        while True:
            with contextlib.suppress(*DATABASE_ERRORS):
                async with self._pool.connection() as connection:
                    await store.delete_expired(connection)
            await asyncio.sleep(TIDY_SECONDS)

    async def _claim(self) -> bool:
        """Start sending to endpoints that are due. Return False if no endpoint is due or no slot is free."""
        if len(self._working) >= AT_ONCE:
            return False
        endpoints: list[WebhookEndpoint] = []
        busy = collections.Counter(self._working.values())
        try:
            async with asyncio.timeout(5), self._pool.connection() as connection:
                if not await store.any_due(connection):
                    return False
                for reliability, most in MAX_AT_ONCE.items():
                    room = min(AT_ONCE - len(self._working) - len(endpoints), most - busy[reliability])
                    if room > 0:
                        endpoints += await store.claim(connection, room, reliability)
        except DATABASE_ERRORS as error:
            log.warning("failed to read webhooks", action="webhooks.unreadable", why=error)
            await asyncio.sleep(POLL_SECONDS)
            return False
        for endpoint in endpoints:
            task = asyncio.create_task(self._serve(endpoint), name=f"webhook {endpoint.ref}")
            self._working[task] = endpoint.reliability
            task.add_done_callback(self._served)
        return bool(endpoints)

    def _served(self, task: asyncio.Task[None]) -> None:
        del self._working[task]
        self._signals.set()
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            if isinstance(error, DATABASE_ERRORS):
                log.warning("failed to store the result of a delivery", action="webhooks.unwritten", why=error)
            else:
                log.error("delivery crashed", action="webhooks.crashed", exc=error)

    async def _serve(self, endpoint: WebhookEndpoint) -> None:
        """Send due events in order until none is left, one fails, or it is other endpoints' turn."""
        try:
            if endpoint.status == store.PENDING:  # its waiting events go out in a slot for working endpoints
                if await self._verify(endpoint):
                    async with self._pool.connection() as connection:
                        await store.release(connection, endpoint)
                return
            seq = endpoint.next_seq
            for _ in range(IN_A_ROW // PAGE):
                async with self._pool.connection() as connection:
                    events = await notices_from(connection, endpoint.wallet, seq, PAGE, trade_id=endpoint.trade_id)
                for event in events:
                    if not await self._deliver(endpoint, event):
                        return
                    seq = event.seq + 1
                    if not _is_about(event, endpoint):  # it works: earlier failures no longer count
                        endpoint = replace(endpoint, attempts=0, failing_since=None)
                if len(events) < PAGE:
                    async with self._pool.connection() as connection:
                        await store.wait_for_events(connection, endpoint)
                    return
            async with self._pool.connection() as connection:
                await store.release(connection, endpoint)
        except (AddressBusy, _LeaseTooShort):
            async with self._pool.connection() as connection:
                await store.release(connection, endpoint, after_seconds=random.uniform(0.5, 1.5))  # noqa: S311

    async def _deliver(self, endpoint: WebhookEndpoint, event: Notice) -> bool:
        """Deliver an event. Return whether the endpoint accepted the event and may get another. Release a slow
        endpoint."""
        if _is_about(event, endpoint):
            async with self._pool.connection() as connection:
                return await store.skip(connection, endpoint, event.seq + 1)
        sent = await self._send(endpoint, event.id, to_json(event_body(event, self._links)))
        if not sent.ok:
            await self._failed(endpoint, event, sent)
            return False
        async with self._pool.connection() as connection:
            if not await store.advance(connection, endpoint, event.seq + 1, slow=sent.slow):
                return False
            if sent.slow and endpoint.reliability == Reliability.WORKING:
                await store.release(connection, endpoint)
                return False
        return True

    async def _send(
        self, endpoint: WebhookEndpoint, event_id: str, body: bytes, *, read_body: bool = False
    ) -> DeliveryResult:
        """Renew the lease and send an event."""
        async with self._pool.connection() as connection:
            since = time.monotonic()
            is_ours = await store.renew_lease(connection, endpoint)
        if not is_ours or time.monotonic() - since > store.LEASE_SECONDS - MAX_SECONDS:
            raise _LeaseTooShort
        return await self._sender.send(endpoint.url, event_id, body, endpoint.secret, read_body=read_body)

    async def _failed(self, endpoint: WebhookEndpoint, event: Notice, sent: DeliveryResult) -> None:
        since, attempts = endpoint.failing_since, endpoint.attempts
        if attempts < len(self._retries):
            seconds = _jittered(self._retries[attempts])
            async with self._pool.connection() as connection:
                await store.schedule_retry(connection, endpoint, sent.error, seconds=seconds, slow=sent.slow)
            return
        # Checked only after the last retry: after a quiet time `since` may be from an earlier outage, and a single
        # failure is no reason to disable the webhook.
        disable = since is not None and datetime.now(UTC) - since >= self._disable_after
        payload = {
            "webhook": endpoint.ref,
            "eventId": event.id,
            "seq": event.seq,
            "attempts": attempts + 1,
            "error": sent.error,
            "disabled": disable,
        }
        source = source_of(EventType.DELIVERY_FAILED, endpoint.id, event.id)
        text = to_json(payload).decode()
        draft = Draft(endpoint.wallet, EventType.DELIVERY_FAILED, source, text, event.market_id, endpoint.trade_id)
        async with self._pool.connection() as connection, connection.transaction():
            if not await store.give_up(connection, endpoint, event.seq, sent.error, disable=disable):
                return
            await event_log.append(connection, [draft])
        log.warning(
            "gave up on an event", action="webhooks.dead", webhook=endpoint.ref, event=event.id, disabled=disable
        )

    async def _verify(self, endpoint: WebhookEndpoint) -> bool:
        """Do the handshake. Return whether the endpoint is now active."""
        challenge = endpoint.challenge or ""
        at = int(endpoint.created_at.timestamp() * 1000) * 1000
        async with self._pool.connection() as connection:
            seq = await newest_seq(connection, endpoint.wallet)
        payload = {"challenge": challenge}
        event = endpoint_event(EventType.WEBHOOK_VERIFY, endpoint.id, endpoint.wallet, challenge, seq, at, payload)
        sent = await self._send(endpoint, event.event_id, to_json(event), read_body=True)
        if sent.ok and not _echoes(sent.body, challenge):
            sent = DeliveryResult(False, "The response did not contain the challenge.")
        async with self._pool.connection() as connection:
            if sent.ok:
                return await store.activate(connection, endpoint, slow=sent.slow)
            if endpoint.verify_until is not None and datetime.now(UTC) >= endpoint.verify_until:
                await store.disable_unverified(connection, endpoint, sent.error)
            else:
                seconds = _jittered(VERIFY_RETRIES[min(endpoint.attempts, len(VERIFY_RETRIES) - 1)])
                await store.schedule_retry(connection, endpoint, sent.error, seconds=seconds)
        return False


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(1, 1 + JITTER)  # noqa: S311 - spreads load, hides nothing


def _echoes(body: bytes, challenge: str) -> bool:
    """Return whether a response repeats the challenge: as plain text, as a JSON string, or in a JSON object."""
    text = body.strip()
    if text == challenge.encode():
        return True
    try:
        echoed = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return challenge in (echoed, echoed.get("challenge") if isinstance(echoed, dict) else None)


def _is_about(event: Notice, endpoint: WebhookEndpoint) -> bool:
    """Return whether the event reports this endpoint's failure. Such events go to the other channels only."""
    return event.type is EventType.DELIVERY_FAILED and f'"webhook":"{endpoint.ref}"' in event.payload
