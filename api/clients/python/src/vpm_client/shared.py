"""What both clients know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from vpm_client.betting import Terms
from vpm_client.call import PREFIX, Call, Reply, json_body
from vpm_client.errors import ApiError, Unreachable, VpmError
from vpm_client.models import AgentWebhookAnswer
from vpm_client.wallets import Wallet, address_of
from vpm_client.webhooks import registration_message

CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Whom a client asks, for whom, and on which terms."""

    base_url: str
    wallet: Wallet | None
    terms: Terms
    read_seconds: float = 20.0

    @property
    def wallet_or_raise(self) -> Wallet:
        if self.wallet is None:
            raise ValueError("This takes a wallet: give one to the client.")
        return self.wallet

    @property
    def address(self) -> str:
        return address_of(self.wallet_or_raise)

    def own(self, wallet: str | None) -> str | None:
        """The wallet that was named, else the client's own."""
        return wallet if wallet is not None or self.wallet is None else self.address


def passes(error: httpx.HTTPError | VpmError) -> bool:
    """Whether what went wrong may be over soon, so that it is worth another try."""
    return error.retriable if isinstance(error, ApiError) else isinstance(error, httpx.HTTPError | Unreachable)


def registration(settings: Settings, url: str, service: str | None) -> str:
    issued = datetime.now(UTC).isoformat(timespec="seconds")
    return registration_message(service or settings.base_url, settings.address, url, issued)


def registering(wallet: str, url: str, message: str, signature: bytes) -> Call[AgentWebhookAnswer]:
    body = {"wallet": wallet, "url": url, "message": message, "signature": "0x" + signature.hex()}
    headers = {"Content-Type": "application/json"}
    return Call("POST", f"{PREFIX}/webhooks", AgentWebhookAnswer, body=json_body(body), headers=headers)


def reply_of(response: httpx.Response) -> Reply:
    return Reply(
        response.status_code, {name.lower(): value for name, value in response.headers.items()}, response.content
    )


def timeout_of(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=CONNECT_SECONDS)
