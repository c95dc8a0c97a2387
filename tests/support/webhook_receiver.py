"""A webhook receiver that stores deliveries, checks signatures, and responds as configured."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from eth_account import Account
from eth_account.messages import encode_defunct

from api.agent.notices.webhooks import registration_message
from scripts._stack.wallets import Wallet
from tests.support.buyer import Buyer
from tests.support.serving import serving
from tests.waiting import PATIENCE, until


@dataclass
class Delivery:
    headers: dict[str, str]
    raw: bytes
    at: float

    @property
    def event(self) -> Any:
        return json.loads(self.raw)

    def signed_by(self, secret: str) -> bool:
        text = f"{self.headers['Service-Event-Id']}.{self.headers['Service-Timestamp']}.".encode() + self.raw
        made = "v1=" + hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
        return hmac.compare_digest(made, self.headers["Service-Signature"])


@dataclass
class Receiver:
    """A receiver of webhooks. `answers`: statuses for the next deliveries before 200s; `echo`: whether challenges are
    echoed."""

    port: int
    echo: bool = True
    answers: list[int] = field(default_factory=list)
    always: int | None = None
    deliveries: list[Delivery] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def events(self) -> list[Any]:
        return [each.event for each in self.deliveries if each.event["type"] != "webhook.verify"]

    async def until(self, holds: Callable[[], bool], *, seconds: float = PATIENCE) -> None:
        await until(holds, lambda: f"other events than {[each['type'] for each in self.events()]}", seconds)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        delivery = Delivery(dict(request.headers), raw, time.time())
        self.deliveries.append(delivery)
        event = delivery.event
        if event["type"] == "webhook.verify":
            return web.json_response({"challenge": event["payload"]["challenge"]} if self.echo else {})
        status = self.answers.pop(0) if self.answers else self.always or 200
        return web.Response(status=status)


@contextlib.asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    app = web.Application()
    made = Receiver(0)
    app.router.add_post("/hook", made.handle)
    async with serving(app) as url:
        made.port = int(url.rpartition(":")[2])
        yield made


def registration(
    who: Wallet, url: str, *, service: str, issued: datetime | None = None, **changes: Any
) -> dict[str, Any]:
    message = registration_message(service, who.address.lower(), url, (issued or datetime.now(UTC)).isoformat())
    signature = Account.sign_message(encode_defunct(text=message), who.private_key).signature
    body = {"wallet": who.address, "url": url, "message": message, "signature": "0x" + bytes(signature).hex()}
    return {**body, **changes}


async def registered(buyer: Buyer, who: Wallet, url: str) -> dict[str, Any]:
    async with buyer.session.post(
        f"{buyer.service.api}/webhooks", json=registration(who, url, service=buyer.service.url)
    ) as response:
        body = await response.json()
        assert response.status == 201, body
        return dict(body["webhook"])


async def active(buyer: Buyer, webhook_id: str, *, seconds: float = PATIENCE) -> dict[str, Any]:
    async def read() -> dict[str, Any] | None:
        _, body = await buyer.get(f"/webhooks/{webhook_id}")
        return dict(body["webhook"]) if body["webhook"]["status"] == "active" else None

    return await until(read, "the handshake", seconds)
