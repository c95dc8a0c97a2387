"""The steps of bets and requests, without I/O. A generator yields the next step, and a sync or async client performs
it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from vpm_client.call import Call, Lost, Reply, decode_reply
from vpm_client.errors import ApiError, Unreachable
from vpm_client.typed_data import TypedData
from vpm_client.wallets import Wallet, address_of

T = TypeVar("T")

FIRST_PAUSE = 0.25
MAX_PAUSE = 5.0
READ_SECONDS = 20.0
"""The time for which a read is retried."""


@dataclass(frozen=True, slots=True)
class Send:
    """A request to send; the result is a Reply or a Lost."""

    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Sign:
    """A message for the wallet to sign; the result is the signature's bytes."""

    message: TypedData | str


@dataclass(frozen=True, slots=True)
class Keep:
    """A ticket to pass to the caller's `keep`, which may be asynchronous, before the ticket is used."""

    ticket: Any
    show: Callable[[Any], object]


Step = Send | Pause | Sign | Keep
Steps = Generator[Step, Any, T]


@dataclass(frozen=True, slots=True)
class Settings:
    """A client's settings. If a required address is None, the address that the service names is accepted."""

    base_url: str
    wallet: Wallet | None
    patience_seconds: float
    final_seconds: float
    token: str | None = None
    contract: str | None = None
    attester: str | None = None

    @property
    def wallet_or_raise(self) -> Wallet:
        if self.wallet is None:
            raise ValueError("This call needs a wallet: pass one to the client.")
        return self.wallet

    @property
    def address(self) -> str:
        return address_of(self.wallet_or_raise)


class Backoff:
    """Growing pauses between retries, within a deadline."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._pause = FIRST_PAUSE

    def next(self, least: float | None = None) -> float | None:
        """Return the seconds until the next try, or None if the deadline is too near. `least`: the fewest seconds to
        wait, from the API's Retry-After."""
        pause = max(self._pause * random.uniform(0.7, 1.3), least or 0.0)  # noqa: S311 (only spreads retries)
        self._pause = min(self._pause * 2, MAX_PAUSE)
        return None if time.monotonic() + pause > self._ends else pause


def send(call: Call[Any]) -> Steps[Reply | Lost]:
    response: Reply | Lost = yield Send(call)
    return response


def send_once(call: Call[T]) -> Steps[T]:
    """Make a call without retries."""
    response = yield from send(call)
    if isinstance(response, Lost):
        raise Unreachable(f"{call.method} {call.path}: {response.why}")
    return decode_reply(call, response)


def send_with_retries(call: Call[T], backoff: Backoff) -> Steps[T]:
    """Make a call and retry it until `backoff` ends. The call must not change anything."""
    while True:
        try:
            return (yield from send_once(call))
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and not error.retriable:
                raise
            pause = backoff.next(error.retry_after if isinstance(error, ApiError) else None)
            if pause is None:
                raise
        yield Pause(pause)


def perform(settings: Settings, call: Call[T]) -> Steps[T]:
    """Make a call. Only a read is retried."""
    if call.of_wallet and "wallet" not in call.query and settings.wallet is not None:
        call = replace(call, query={**call.query, "wallet": settings.address})
    return send_with_retries(call, Backoff(READ_SECONDS)) if call.method == "GET" else send_once(call)
