"""The asyncio client."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from vpm_client.base import BaseClient, error_of, is_transient, lost, reply_of
from vpm_client.call import Call, Lost, Reply
from vpm_client.errors import VpmError
from vpm_client.events import MAX_PAUSE_SECONDS, PAUSE_SECONDS, Cursor, EventParser, stream_call
from vpm_client.models import AgentEvent
from vpm_client.steps import Keep, Pause, Send, Sign, Steps
from vpm_client.wallets import check_signature, request_signature

T = TypeVar("T")


class AsyncClient(BaseClient[httpx.AsyncClient]):
    """The asyncio version of `Client`, with the same methods. The wallet and `keep` may be asynchronous."""

    _http_class = httpx.AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    async def events(
        self, wallet: str | None = None, *, cursor: Cursor | None = None, trade_id: str | None = None
    ) -> AsyncIterator[AgentEvent]:
        """See `Client.events`."""
        cursor, wallet = cursor or Cursor(), wallet or self.settings.address
        pause = PAUSE_SECONDS
        while True:
            try:
                async for event in self._stream(wallet, cursor, trade_id):
                    pause = PAUSE_SECONDS
                    yield event
            except (httpx.HTTPError, VpmError) as error:
                if not is_transient(error):
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    async def _stream(self, wallet: str, cursor: Cursor, trade_id: str | None) -> AsyncIterator[AgentEvent]:
        call = stream_call(wallet, trade_id, cursor)
        async with self._http.stream(**self._request(call)) as response:
            if response.status_code != 200:
                await response.aread()
                raise error_of(response)
            parser = EventParser(cursor, contiguous=trade_id is None)
            async for line in response.aiter_lines():
                event = parser.line(line)
                if event is not None:
                    yield event

    async def do(self, steps: Steps[T]) -> T:
        done: Any = None
        try:
            while True:
                step = steps.send(done)
                done = None
                if isinstance(step, Send):
                    done = await self._send(step.call)
                elif isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                elif isinstance(step, Sign):
                    wallet = self.settings.wallet_or_raise
                    made = request_signature(wallet, step.message)
                    made = await made if inspect.isawaitable(made) else made
                    done = check_signature(wallet, step.message, made)
                elif isinstance(step, Keep):
                    shown = step.show(step.ticket)
                    if inspect.isawaitable(shown):
                        await shown
        except StopIteration as end:
            result: T = end.value
            return result

    async def _send(self, call: Call[Any]) -> Reply | Lost:
        try:
            response = await self._http.request(**self._request(call))
        except httpx.HTTPError as error:
            return lost(error)
        return reply_of(response)
