"""What both clients know and are made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import httpx

from vpm_client.betting import Terms
from vpm_client.call import PREFIX, Call, Lost, Reply, json_body
from vpm_client.errors import ApiError, Unreachable, VpmError
from vpm_client.models import AgentWebhookAnswer
from vpm_client.steps import Patience, Steps, asked, once
from vpm_client.wallets import Wallet, address_of
from vpm_client.webhooks import registration_message

T = TypeVar("T")
H = TypeVar("H", httpx.Client, httpx.AsyncClient)

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

    def steps_of(self, call: Call[T]) -> Steps[T]:
        """To the answer of a call: what only reads is asked again while there is time."""
        return asked(call, Patience(self.read_seconds)) if call.method == "GET" else once(call)

    def request(self, call: Call[Any]) -> dict[str, Any]:
        """A call as httpx takes it."""
        return {
            "method": call.method,
            "url": self.base_url + call.path,
            "params": call.query,
            "content": call.body,
            "headers": call.headers,
            "timeout": httpx.Timeout(call.seconds, connect=CONNECT_SECONDS),
        }


class Configured(Generic[H]):
    """A client as it is set up. `_makes`: the kind of HTTP client that it opens unless it is given one."""

    _makes: type[H]

    def __init__(
        self,
        base_url: str,
        wallet: Wallet | None = None,
        *,
        http: H | None = None,
        patience_seconds: float = 120.0,
        final_seconds: float = 3600.0,
        token: str | None = None,
        contract: str | None = None,
        attester: str | None = None,
    ) -> None:
        terms = Terms(patience_seconds, final_seconds, token, contract, attester)
        self._settings = Settings(base_url.rstrip("/"), wallet, terms)
        self._http: H = self._makes() if http is None else http
        self._owns_http = http is None


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


def lost(error: httpx.HTTPError) -> Lost:
    return Lost(f"{type(error).__name__} {error}".strip())
