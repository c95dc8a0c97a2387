"""The base of both clients: settings, and the library's steps as methods."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import httpx

from vpm_client import betting, operations, webhooks
from vpm_client.call import Call, Lost, Reply
from vpm_client.errors import ApiError, Unreachable, VpmError
from vpm_client.steps import Settings, Steps, perform
from vpm_client.wallets import Wallet

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", httpx.Client, httpx.AsyncClient)

CONNECT_SECONDS = 5.0


class Method(Generic[P, T]):
    """A method that both clients share, made from steps. In `Client` it returns the result; in `AsyncClient`, a
    coroutine."""

    def __init__(self, steps: Callable[Concatenate[Settings, P], Steps[T]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, client: BaseClient[httpx.Client], kind: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: BaseClient[httpx.AsyncClient], kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, kind: type) -> Callable[P, Any]:
        @functools.wraps(self._steps)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.do(self._steps(client.settings, *args, **kwargs))

        return method


def question(call: Callable[P, Call[T]]) -> Method[P, T]:
    @functools.wraps(call)
    def steps(settings: Settings, /, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        return perform(settings, call(*args, **kwargs))

    return Method(steps)


class BaseClient(Generic[H]):
    """A client of the agent API at `base_url`. Reads need no wallet.

    `http`: your own httpx client, which you close yourself. `patience_seconds`: how long to keep trying a bet.
    `final_seconds`: how long to wait after that until the bet's block is final. `token`, `contract`, `attester`: the
    addresses to require. By default, the addresses that the service names are accepted.
    """

    _http_class: type[H]

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
        self.settings = Settings(
            base_url.rstrip("/"), wallet, patience_seconds, final_seconds, token, contract, attester
        )
        self._http: H = self._http_class() if http is None else http
        self._owns_http = http is None

    def _request(self, call: Call[Any]) -> dict[str, Any]:
        return {
            "method": call.method,
            "url": self.settings.base_url + call.path,
            "params": call.query,
            "content": call.body,
            "headers": call.headers,
            "timeout": httpx.Timeout(call.seconds, connect=CONNECT_SECONDS),
        }

    markets = question(operations.markets)
    market = question(operations.market)
    research = question(operations.research)
    discover = question(operations.discover)
    sentiment = question(operations.sentiment)
    quote = question(operations.quote)
    positions = question(operations.positions)
    result = question(operations.result)
    proof = question(operations.proof)
    readiness = question(operations.readiness)
    stats = question(operations.stats)
    health = question(operations.health)
    getting_started = question(operations.getting_started)
    replay = question(operations.replay)
    resolved = question(operations.resolved)
    webhook = question(operations.webhook)
    delete_webhook = question(operations.delete_webhook)
    test_webhook = question(operations.test_webhook)

    bet = Method(betting.bet)
    prepare = Method(betting.prepare)
    place = Method(betting.place)
    register_webhook = Method(webhooks.register_webhook)


def is_transient(error: httpx.HTTPError | VpmError) -> bool:
    """Return whether a retry may succeed after this error."""
    return error.retriable if isinstance(error, ApiError) else isinstance(error, httpx.HTTPError | Unreachable)


def reply_of(response: httpx.Response) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, response.content)


def error_of(response: httpx.Response) -> ApiError:
    reply = reply_of(response)
    return ApiError(reply.status, reply.headers, reply.body)


def lost(error: httpx.HTTPError) -> Lost:
    return Lost(f"{type(error).__name__} {error}".strip())
