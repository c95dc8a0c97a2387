"""A reader of event streams (HTML standard), and one that always reconnects."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp


@dataclass
class Message:
    id: str | None
    data: Any
    comments: list[str]


async def messages(response: aiohttp.ClientResponse) -> AsyncIterator[Message]:
    kept: list[str] = []
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        if line:
            kept.append(line)
            continue
        fields = [each.partition(":") for each in kept if not each.startswith(":")]
        found = {name: value.removeprefix(" ") for name, _, value in fields}
        comments = [each[1:].strip() for each in kept if each.startswith(":")]
        data = found.get("data")
        yield Message(found.get("id"), None if data is None else json.loads(data), comments)
        kept = []


@dataclass
class Following:
    url: str
    wallet: str
    events: list[Any] = field(default_factory=list)
    connections: int = 0

    async def run(self) -> None:
        last: str | None = None
        timeout = aiohttp.ClientTimeout(total=None, connect=5, sock_read=40)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                headers = {} if last is None else {"Last-Event-ID": last}
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                    async with session.get(self.url, params={"wallet": self.wallet}, headers=headers) as response:
                        if response.status == 200:
                            self.connections += 1
                            async for message in messages(response):
                                if message.data is not None:
                                    self.events.append(message.data)
                                    last = message.id
                await asyncio.sleep(0.1)
