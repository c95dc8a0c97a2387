"""What all clients have in common: how they call, and what they were told."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import aiohttp

from scripts._stack.wallets import Wallet
from tests.simulator.clock import VirtualClock

ANSWER_SECONDS = 25.0
PAUSE_SECONDS = 1.5


class Outcome(StrEnum):
    WAITING = "waiting"
    TAKEN = "taken"
    REFUSED = "refused"


@dataclass
class Seen:
    """An answer about one market, judged when it came: `true` is empty when it was true at the block it names, a
    sentence when it was not, and None when a fork undid that block about then."""

    market: str
    true: str | None


@dataclass
class Clients:
    """All clients of a world. They sign by the clock; what they were told is kept for the judgement."""

    url: str
    clock: VirtualClock
    dice: random.Random
    wallets: list[Wallet]
    seen: list[Seen] = field(default_factory=list)
    callers: int = 0
    betting: list[asyncio.Task[None]] = field(default_factory=list)
    session: aiohttp.ClientSession | None = None

    async def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and JSON; 0 when there was none."""
        assert self.session is not None
        self.callers += 1
        caller = {"X-Forwarded-For": f"10.{self.callers >> 16 & 255}.{self.callers >> 8 & 255}.{self.callers & 255}"}
        patience = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        try:
            async with self.session.request(
                method, self.url + path, json=body, headers={**caller, **(headers or {})}, timeout=patience
            ) as answer:
                return answer.status, json.loads(await answer.read() or b"null")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return 0, None
