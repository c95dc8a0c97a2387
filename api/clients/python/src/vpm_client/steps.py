"""What a sequence of calls is made of: it says what it wants done next, and a client, sync or async, does it.

So the sequence stands once, for both.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from vpm_client.bound import TypedData
from vpm_client.call import Call, Lost, Reply, answer
from vpm_client.errors import ApiError, Unreachable
from vpm_client.wallets import Wallet, address_of

T = TypeVar("T")

FIRST_PAUSE = 0.25
MAX_PAUSE = 5.0
READ_SECONDS = 20.0
"""How long a plain question is asked again."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A call to make; a Reply or a Lost is the result."""

    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Sign:
    """Something for the wallet to sign, typed data or a text; the bytes of the signature are the result."""

    message: TypedData | str


@dataclass(frozen=True, slots=True)
class Keep:
    """A ticket to show the caller as it stands now, before anything is done with it. `show` may be asynchronous."""

    ticket: Any
    show: Callable[[Any], object]


Step = Ask | Pause | Sign | Keep
Steps = Generator[Step, Any, T]


@dataclass(frozen=True, slots=True)
class Settings:
    """The service, the wallet and the terms of a client: how long it tries, and the addresses that it insists on (None:
    those that the service names)."""

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
            raise ValueError("This takes a wallet: give one to the client.")
        return self.wallet

    @property
    def address(self) -> str:
        return address_of(self.wallet_or_raise)


class Patience:
    """The time there is for something, and growing pauses within it."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._pause = FIRST_PAUSE

    def next(self, least: float | None = None) -> float | None:
        """Return the seconds to wait before another try, None if out of time. `least`: what the API asked for."""
        pause = max(self._pause * random.uniform(0.7, 1.3), least or 0.0)  # noqa: S311 (only spreads retries)
        self._pause = min(self._pause * 2, MAX_PAUSE)
        return None if time.monotonic() + pause > self._ends else pause


def ask(call: Call[Any]) -> Steps[Reply | Lost]:
    heard: Reply | Lost = yield Ask(call)
    return heard


def once(call: Call[T]) -> Steps[T]:
    """Make a call once and return its answer: it is never repeated, even if it fails."""
    heard = yield from ask(call)
    if isinstance(heard, Lost):
        raise Unreachable(f"{call.method} {call.path}: {heard.why}")
    return answer(call, heard)


def asked(call: Call[T], patience: Patience) -> Steps[T]:
    """The answer to a call that may be made again as often as one likes: it changes nothing."""
    while True:
        try:
            return (yield from once(call))
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and not error.retriable:
                raise
            pause = patience.next(error.retry_after if isinstance(error, ApiError) else None)
            if pause is None:
                raise
        yield Pause(pause)


def answered(settings: Settings, call: Call[T]) -> Steps[T]:
    """The answer to a plain question. One that only reads is asked again while there is time."""
    if call.of_wallet and "wallet" not in call.query and settings.wallet is not None:
        call = replace(call, query={**call.query, "wallet": settings.address})
    return asked(call, Patience(READ_SECONDS)) if call.method == "GET" else once(call)
