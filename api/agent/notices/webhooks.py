"""`/webhooks`: registering, showing, testing and removing webhooks. To register one, the wallet signs a dated text that
names the service, the wallet and the URL."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from aiohttp import web
from eth_account.messages import encode_defunct
from limits import parse

from api.agent.bodies.events import (
    AgentEvent,
    AgentWebhookRegistration,
    DeletedBody,
    TestBody,
    WebhookBody,
    endpoint_event,
)
from api.agent.bodies.parts import meta
from api.agent.errors import problem, storage
from api.agent.facts import Links
from api.agent.notices import endpoints as store
from api.agent.notices.endpoints import WebhookEndpoint
from api.agent.notices.sending import AddressBusy, TargetRefused, TargetResolver, WebhookSender, checked_url
from api.agent.requests import WEBHOOK_BODY_LIMIT, WebhookPath, WebhookRequest, checked_wallet
from api.caching import json_response
from api.context import Context
from api.limits import caller_ip
from api.operations import body_from
from api.payments.authorization import accepts_signature
from api.requests import read_json, read_path, validated_body
from core.agent.notices.log import EventType, newest_seq, next_seq
from core.chain import ChainClient, RpcError
from core.db.channels import AGENT_EVENT, notify
from core.hexadecimal import bytes_of, hex_of
from core.iso import iso_datetime
from core.log import get_logger
from core.money import to_json
from core.signatures import message_hash, signer_of, with_usual_v

log = get_logger(__name__)

TITLE = "Service webhook registration"
VALID_FOR = timedelta(minutes=10)


def registration_message(service: str, wallet: str, url: str, issued: str) -> str:
    return f"{TITLE}\nService: {service}\nWallet: {wallet}\nURL: {url}\nIssued: {issued}"


@dataclass(frozen=True, slots=True)
class Registration:
    """A registration that the wallet must have signed recently. `service`: the API's origin. `now`: the time of the
    check."""

    service: str
    wallet: str
    url: str
    now: datetime

    def check_message(self, message: str) -> None:
        """Raise 422 unless the text names this service, wallet and URL, and is at most ten minutes old."""
        lines = message.split("\n")
        issued_text = lines[-1].removeprefix("Issued: ")
        expected = registration_message(self.service, self.wallet, self.url, issued_text).split("\n")
        if len(lines) != len(expected):
            raise self.unproven("The message does not have the five lines of a registration.")
        for line, right in zip(lines, expected, strict=True):
            if line != right:
                raise self.unproven(f"The message has the line {line!r} instead of {right!r}.")
        try:
            issued = datetime.fromisoformat(issued_text)
        except ValueError:
            raise self.unproven("The message's time is not ISO-8601.") from None
        if issued.tzinfo is None:
            issued = issued.replace(tzinfo=UTC)
        if abs(self.now - issued) > VALID_FOR:
            raise self.unproven("The message's time is more than 10 minutes from now.")

    async def check_signature(
        self, client: ChainClient | None, message: str, signature: str, timeout_seconds: float
    ) -> None:
        """Raise 422 unless the wallet signed the message with its key (EIP-191) or through its contract (ERC-1271)."""
        try:
            raw = bytes_of(signature)
        except ValueError:
            raise self.unproven("The signature is not hexadecimal.") from None
        digest = digest_of(message)
        raw = with_usual_v(raw)
        if (signer := signer_of(digest, raw)) is not None and signer.lower() == self.wallet:
            return
        if client is not None:
            try:
                if await accepts_signature(client, self.wallet, digest, raw, timeout_seconds):
                    return
            except RpcError as error:
                log.warning("failed to check a contract wallet's signature", action="agent.no_chain", why=error)
                raise problem("internal_error", "The signature cannot be checked on Base at the moment.") from None
        raise self.unproven("The signature is not the wallet's signature of this message.")

    def unproven(self, why: str) -> Exception:
        """Return a 422 that shows the exact text that would be accepted now."""
        text = registration_message(self.service, self.wallet, self.url, self.now.isoformat(timespec="seconds"))
        hint = f"Sign exactly these five lines with personal_sign, and send them as `message`:\n{text}"
        return problem("invalid_wallet", why, hint=hint, details={"message": text})


def digest_of(message: str) -> bytes:
    return message_hash(encode_defunct(text=message))


REGISTRATIONS = parse("10/minute")
REGISTRATIONS_A_DAY = parse("200/day")  # wallets are free, and the handshake of each is retried for an hour
TESTS = parse("10/minute")
TESTS_EACH_CALLER = parse("30/minute")
_webhooks = partial(storage, "The webhooks", seconds=5.0)
_WAITS_FOR_THE_HANDSHAKE = (
    "The test was not sent: the URL has not yet returned the challenge of webhook.verify. That is being retried."
)
_ID = re.compile(r"wh_[0-9a-f]{32}")


class Webhooks:
    """The webhook endpoints. Without `client`, contract wallets cannot register webhooks."""

    def __init__(
        self, context: Context, client: ChainClient | None, links: Links, targets: TargetResolver, sender: WebhookSender
    ) -> None:
        self._settings, self._pool, self._limits = context.settings, context.pool, context.limits
        self._client = client
        self._links = links
        self._targets = targets
        self._sender = sender

    async def register(self, request: web.Request) -> web.StreamResponse:
        body = validated_body(WebhookRequest, await read_json(request, limit=WEBHOOK_BODY_LIMIT))
        wallet = checked_wallet(body.wallet)
        who = caller_ip(request, self._settings)
        await self._limits.take(REGISTRATIONS, "agent-webhooks", who, "An address may register 10 webhooks a minute.")
        message = "An address may register 200 webhooks a day."
        await self._limits.take_external(REGISTRATIONS_A_DAY, "agent-webhooks-day", who, message)
        claim = Registration(self._links.origin, wallet, body.url, datetime.now(UTC))
        try:
            url = checked_url(body.url, allow_private=self._targets.allow_private)
            claim.check_message(body.message)
            seconds = self._settings.rpc_request_path_timeout_seconds
            await claim.check_signature(self._client, body.message, body.signature, seconds)
            await self._targets.resolve(url)
        except TargetRefused as why:
            issue = {"field": "url", "problem": str(why)}
            raise problem("invalid_request", f"The URL cannot be used: {why}", issues=[issue]) from None
        owner = bytes_of(wallet)
        async with _webhooks(), self._pool.connection() as connection, connection.transaction():
            if not await store.record_message(connection, owner, digest_of(body.message)):
                raise claim.unproven("The message was used before; sign a new one for each registration.")
            made = await store.register(connection, owner, body.url)
            await notify(connection, AGENT_EVENT, [owner])  # wakes the dispatchers at once
        return json_response(WebhookBody(meta=meta(self._links), webhook=registration(made, made.secret)), 201)

    async def show(self, request: web.Request) -> web.StreamResponse:
        webhook_id = _webhook_id(request)
        async with _webhooks(), self._pool.connection() as connection:
            endpoint = await store.find(connection, webhook_id)
        if endpoint is None:
            raise _unknown()
        return json_response(WebhookBody(meta=meta(self._links), webhook=registration(endpoint, None)))

    async def remove(self, request: web.Request) -> web.StreamResponse:
        webhook_id = _webhook_id(request)
        async with _webhooks(), self._pool.connection() as connection:
            removed = await store.remove(connection, webhook_id)
        if not removed:
            raise _unknown()
        return json_response(DeletedBody(meta=meta(self._links), id=webhook_id, deleted=True))

    async def test(self, request: web.Request) -> web.StreamResponse:
        webhook_id = _webhook_id(request)
        who, message = caller_ip(request, self._settings), "An address may test webhooks 30 times a minute."
        await self._limits.take_external(TESTS_EACH_CALLER, "agent-webhook-tests", who, message)
        await self._limits.take(TESTS, "agent-webhook-test", webhook_id, "A webhook may be tested 10 times a minute.")
        async with _webhooks(), self._pool.connection() as connection, connection.transaction():
            endpoint = await store.find(connection, webhook_id, lock=True)
            if endpoint is None:
                raise _unknown()
            await store.retry_now(connection, endpoint, await next_seq(connection, endpoint.wallet))
            await notify(connection, AGENT_EVENT, [endpoint.wallet])
            woken = await store.find(connection, webhook_id) or endpoint
            seq = await newest_seq(connection, endpoint.wallet)
        now = round(time.time() * 1_000) * 1_000
        payload = {"webhook": endpoint.ref, "message": "This is a test."}
        event = endpoint_event(EventType.TEST, webhook_id, endpoint.wallet, secrets.token_hex(16), seq, now, payload)
        note = await self._send(woken, event) if woken.status == store.ACTIVE else _WAITS_FOR_THE_HANDSHAKE
        return json_response(
            TestBody(meta=meta(self._links), event=event, webhook=registration(woken, None), note=note)
        )

    async def _send(self, endpoint: WebhookEndpoint, event: AgentEvent) -> str | None:
        """Send a test event once. Return why the endpoint did not accept it, or None if it did."""
        try:
            sent = await self._sender.send(endpoint.url, event.event_id, to_json(event), endpoint.secret)
        except AddressBusy:
            raise problem("rate_limited", "Other deliveries to this URL are in progress.", retry_after=1) from None
        return None if sent.ok else sent.error


def registration(endpoint: WebhookEndpoint, secret: str | None) -> AgentWebhookRegistration:
    return body_from(
        AgentWebhookRegistration,
        endpoint,
        wallet=hex_of(endpoint.wallet),
        secret=secret,
        created_at=iso_datetime(endpoint.created_at),
        failed_attempts=endpoint.attempts,
        failing_since=None if endpoint.failing_since is None else iso_datetime(endpoint.failing_since),
    )


def _webhook_id(request: web.Request) -> str:
    webhook_id = read_path(request, WebhookPath).id
    if not _ID.fullmatch(webhook_id):
        raise _unknown()
    return webhook_id


def _unknown() -> Exception:
    return problem("not_found", "No webhook has this id.", hint="Use the id that the registration returned.")
