"""The delivery of one event. It is signed, sent to a checked address, and judged by the status of the answer. A
delivery follows no redirects, has a short timeout and reads at most a few KB."""

from __future__ import annotations

import asyncio
import collections
import hashlib
import hmac
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import aiohttp
from eth_account import Account
from eth_account.messages import encode_defunct
from eth_account.signers.local import LocalAccount
from prometheus_client import Counter, Histogram

from api.agent.notices.targets import (
    RESOLVE_SECONDS,
    PinnedResolver,
    Target,
    TargetRefused,
    TargetResolver,
    checked_url,
)
from core.service.health import LATENCY_BUCKETS

DELIVERIES = Counter(
    "vpm_agent_webhook_deliveries", "Delivery attempts, by kind of delivery and outcome", ("what", "outcome")
)
DELIVERY_SECONDS = Histogram(
    "vpm_agent_webhook_delivery_seconds", "Duration of a delivery attempt", buckets=LATENCY_BUCKETS
)

CONNECT_SECONDS = 3.0
TOTAL_SECONDS = 8.0
# One delivery including its DNS lookup.
MAX_SECONDS = RESOLVE_SECONDS + TOTAL_SECONDS
SLOW_SECONDS = 1.0
ANSWER_BYTES = 8 * 1024
AT_ONCE_PER_ADDRESS = 4
USER_AGENT = "vpm-events/1"


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of a delivery. `answer`: the beginning of the answer's body, if it was requested."""

    ok: bool
    outcome: str
    """A label for the metric."""
    error: str = ""
    """A sentence for the webhook's owner, which must reveal nothing about our network."""
    answer: bytes = b""
    slow: bool = False
    """It used its slot for longer than most deliveries do."""


class AddressBusy(Exception):
    """The refusal to start a delivery while too many deliveries to the same address are in progress. The delivery must
    wait."""


class DeliverySigner:
    """The signer of deliveries. Webhooks are signed with their secret, callbacks with the attestation key."""

    def __init__(self, attestation_key: str | None) -> None:
        self._account: LocalAccount | None = None if attestation_key is None else Account.from_key(attestation_key)

    def headers(self, event_id: str, body: bytes, secret: str | None, now: int) -> dict[str, str]:
        """Return the headers of a delivery, with its signature. `now`: Unix seconds."""
        signed = b"%b.%d.%b" % (event_id.encode(), now, body)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "Accept-Encoding": "identity",
            "Service-Event-Id": event_id,
            "Service-Timestamp": str(now),
        }
        if secret is not None:
            headers["Service-Signature"] = "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        elif self._account is not None:
            signature = self._account.sign_message(encode_defunct(primitive=signed)).signature
            headers["Service-Signature"] = "eip191=0x" + bytes(signature).hex()
        return headers


class WebhookSender:
    """The sender of deliveries, a few at once to each address. `trusts`: a TLS context for tests. The default is
    aiohttp's, which trusts the machine's certificates."""

    def __init__(
        self, signer: DeliverySigner, targets: TargetResolver, *, trusts: ssl.SSLContext | Literal[True] = True
    ) -> None:
        self._signer = signer
        self._targets = targets
        self._trusts = trusts
        self._busy: collections.Counter[str] = collections.Counter()
        """Deliveries in progress by address, and by host name, which is known before it is resolved."""

    async def send(
        self,
        url: str,
        event_id: str,
        body: bytes,
        secret: str | None,
        *,
        what: str = "webhook",
        read_answer: bool = False,
    ) -> DeliveryResult:
        """Deliver one event. Raise AddressBusy, which does not count as a failure, if the delivery must wait. `what`: a
        label for the metric."""
        with DELIVERY_SECONDS.time():
            sent = await self._sent(url, event_id, body, secret, read_answer)
        DELIVERIES.labels(what, sent.outcome).inc()
        return sent

    async def _sent(
        self, url: str, event_id: str, body: bytes, secret: str | None, read_answer: bool
    ) -> DeliveryResult:
        began = time.monotonic()
        try:
            address = checked_url(url, allow_private=self._targets.allow_private)
            with self._place(f"name {address.host}"):
                target = await self._targets.resolve(address)
                with self._place(target.network):
                    headers = self._signer.headers(event_id, body, secret, int(time.time()))
                    sent = await self._post_within(target, headers, body, read_answer)
        except TargetRefused as why:
            sent = DeliveryResult(False, "refused", str(why))
        return replace(sent, slow=time.monotonic() - began > SLOW_SECONDS)

    async def aclose(self) -> None:
        await self._targets.aclose()

    @contextmanager
    def _place(self, where: str) -> Iterator[None]:
        if self._busy[where] >= AT_ONCE_PER_ADDRESS:
            raise AddressBusy(where)
        self._busy[where] += 1
        try:
            yield
        finally:
            self._busy[where] -= 1
            if not self._busy[where]:
                del self._busy[where]

    async def _post_within(
        self, target: Target, headers: dict[str, str], body: bytes, read_answer: bool
    ) -> DeliveryResult:
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                return await self._post(target, headers, body, read_answer)
        except (TimeoutError, aiohttp.ServerTimeoutError):
            return DeliveryResult(False, "timeout", f"It did not answer within {TOTAL_SECONDS:.0f} s.")
        except aiohttp.ClientConnectorCertificateError:
            return DeliveryResult(False, "tls", "Its TLS certificate cannot be verified.")
        except aiohttp.ClientSSLError:
            return DeliveryResult(False, "tls", "The TLS handshake failed.")
        except aiohttp.ClientConnectorError:
            return DeliveryResult(False, "unreachable", "No connection could be made.")
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError):
            return DeliveryResult(False, "disconnected", "It closed the connection.")
        except (aiohttp.ClientError, OSError, ValueError):
            return DeliveryResult(False, "broken", "Its answer is not valid HTTP.")

    async def _post(self, target: Target, headers: dict[str, str], body: bytes, read_answer: bool) -> DeliveryResult:
        resolver = PinnedResolver(target)
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True, ssl=self._trusts)
        async with (
            aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=TOTAL_SECONDS, connect=CONNECT_SECONDS),
                auto_decompress=False,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.post(target.url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            if not 200 <= response.status < 300:
                return DeliveryResult(False, "answered", f"It answered {response.status}.")
            answer = b""
            while read_answer and len(answer) < ANSWER_BYTES:
                piece = await response.content.read(ANSWER_BYTES - len(answer))
                if not piece:
                    break
                answer += piece
            # The rest is not read; leaving closes the connection.
            return DeliveryResult(True, "ok", answer=answer)
