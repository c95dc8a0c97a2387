"""Webhooks: registering one, and verifying deliveries on the receiver's side."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from vpm_client.call import PREFIX, Call, decode, json_body
from vpm_client.errors import WebhookRefused
from vpm_client.models import AgentEvent, AgentWebhookAnswer
from vpm_client.steps import Settings, Sign, Steps, send_once
from vpm_client.typed_data import text_signer

WINDOW_SECONDS = 300


class WebhookVerifier:
    """A verifier of deliveries. Pass the `secret` of a registered webhook or, for callbacks of single trades, the
    address that signs them (`health().health.attester`). That address signs the callbacks of all wallets, so accept
    only events whose `trade_id` is yours.

    A delivery is refused if its signature is wrong, if its timestamp is more than `window_seconds` from now, or if it
    was received before. The service may deliver an event again with a new timestamp, so skip each `event_id` that you
    have handled.
    """

    def __init__(
        self,
        secret: str | None = None,
        *,
        attester: str | None = None,
        window_seconds: int = WINDOW_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if (secret is None) == (attester is None):
            raise ValueError("Pass either a webhook's secret or the attester that signs callbacks.")
        self._secret = secret
        self._attester = attester
        self._window = window_seconds
        self._clock = clock
        self._seen: dict[tuple[str, str], float] = {}

    def verify(self, headers: Mapping[str, str], body: bytes) -> AgentEvent:
        """Return the event, or raise WebhookRefused. `body`: the raw bytes received."""
        given = {name.lower(): value for name, value in headers.items()}
        try:
            event_id, stamp, signature = (given[f"service-{name}"] for name in ("event-id", "timestamp", "signature"))
        except KeyError as missing:
            raise WebhookRefused(f"The header {missing} is missing.") from None
        now = self._clock()
        if not re.fullmatch("[0-9]{1,15}", stamp) or abs(now - int(stamp)) > self._window:
            raise WebhookRefused(f"The timestamp {stamp[:20]} is more than {self._window} s from now.")
        if not self._signed(f"{event_id}.{stamp}.".encode() + body, signature):
            raise WebhookRefused("The signature is not the service's.")
        self._seen = {each: until for each, until in self._seen.items() if until > now}
        if (event_id, stamp) in self._seen:
            raise WebhookRefused("This delivery was already received.")
        self._seen[event_id, stamp] = int(stamp) + self._window + 1
        event = decode(AgentEvent, body)
        if event.event_id != event_id:
            raise WebhookRefused("The event id in the header differs from the one in the body.")
        return event

    def _signed(self, text: bytes, signature: str) -> bool:
        if self._secret is not None:
            made = "v1=" + hmac.new(self._secret.encode(), text, hashlib.sha256).hexdigest()
            return hmac.compare_digest(made.encode(), signature.encode())
        kind, _, value = signature.partition("=")
        signer = text_signer(text, value) if kind == "eip191" else None
        return signer is not None and signer.lower() == str(self._attester).lower()


def handshake(event: AgentEvent) -> dict[str, str] | None:
    """Return the JSON response to a `webhook.verify` event. The response activates the webhook. Return None for other
    events."""
    return {"challenge": str(event.payload["challenge"])} if event.type == "webhook.verify" else None


def register_webhook(settings: Settings, url: str, *, service: str | None = None) -> Steps[AgentWebhookAnswer]:
    """Register a URL for the wallet's events. Save the `secret`, which is returned only once. `service`: the API's
    public origin, if it differs from `base_url`."""
    wallet = settings.address
    message = (
        f"Service webhook registration\nService: {service or settings.base_url}\nWallet: {wallet.lower()}\nURL: {url}\n"
        f"Issued: {datetime.now(UTC).isoformat(timespec='seconds')}"
    )
    signature: bytes = yield Sign(message)
    body = {"wallet": wallet, "url": url, "message": message, "signature": "0x" + signature.hex()}
    headers = {"Content-Type": "application/json"}
    call = Call("POST", f"{PREFIX}/webhooks", AgentWebhookAnswer, body=json_body(body), headers=headers)
    return (yield from send_once(call))
