"""What both clients are made of: their settings, and the steps of this library as methods."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import httpx

from vpm_client import betting, calls, webhooks
from vpm_client.call import Call, Lost, Reply
from vpm_client.errors import ApiError, Unreachable, VpmError
from vpm_client.steps import Settings, Steps, answered
from vpm_client.wallets import Wallet

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", httpx.Client, httpx.AsyncClient)

CONNECT_SECONDS = 5.0


class Method(Generic[P, T]):
    """Steps as a method of both clients: `Client` does them and returns what they come to, `AsyncClient` something to
    await."""

    def __init__(self, steps: Callable[Concatenate[Settings, P], Steps[T]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, client: Configured[httpx.Client], kind: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: Configured[httpx.AsyncClient], kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, kind: type) -> Callable[P, Any]:
        @functools.wraps(self._steps)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.do(self._steps(client.settings, *args, **kwargs))

        return method


def question(call: Callable[P, Call[T]]) -> Method[P, T]:
    """A plain question as a method."""

    @functools.wraps(call)
    def steps(settings: Settings, /, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        return answered(settings, call(*args, **kwargs))

    return Method(steps)


class Configured(Generic[H]):
    """The agent API at `base_url`, for one wallet if one is given. Reads need none.

    `http`: an httpx client of your own, which you close yourself. `patience_seconds`: how long a bet is tried;
    `final_seconds`: how long to wait then until its block is final. `token`, `contract`, `attester`: addresses to
    insist on, else those that the service names.
    """

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
        self.settings = Settings(
            base_url.rstrip("/"), wallet, patience_seconds, final_seconds, token, contract, attester
        )
        self._http: H = self._makes() if http is None else http
        self._owns_http = http is None

    def _request(self, call: Call[Any]) -> dict[str, Any]:
        """A call as httpx takes it."""
        return {
            "method": call.method,
            "url": self.settings.base_url + call.path,
            "params": call.query,
            "content": call.body,
            "headers": call.headers,
            "timeout": httpx.Timeout(call.seconds, connect=CONNECT_SECONDS),
        }

    markets = question(calls.markets)
    market = question(calls.market)
    research = question(calls.research)
    discover = question(calls.discover)
    sentiment = question(calls.sentiment)
    quote = question(calls.quote)
    positions = question(calls.positions)
    result = question(calls.result)
    proof = question(calls.proof)
    readiness = question(calls.readiness)
    stats = question(calls.stats)
    health = question(calls.health)
    getting_started = question(calls.getting_started)
    replay = question(calls.replay)
    resolved = question(calls.resolved)
    webhook = question(calls.webhook)
    delete_webhook = question(calls.delete_webhook)
    test_webhook = question(calls.test_webhook)

    bet = Method(betting.bet)
    prepare = Method(betting.prepare)
    place = Method(betting.place)
    register_webhook = Method(webhooks.register_webhook)


def passes(error: httpx.HTTPError | VpmError) -> bool:
    """Check whether an error may pass soon, so that it is worth another try."""
    return error.retriable if isinstance(error, ApiError) else isinstance(error, httpx.HTTPError | Unreachable)


def reply_of(response: httpx.Response) -> Reply:
    return Reply(
        response.status_code, {name.lower(): value for name, value in response.headers.items()}, response.content
    )


def refused(response: httpx.Response) -> ApiError:
    reply = reply_of(response)
    return ApiError(reply.status, reply.headers, reply.body)


def lost(error: httpx.HTTPError) -> Lost:
    return Lost(f"{type(error).__name__} {error}".strip())
