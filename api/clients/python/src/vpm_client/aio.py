"""The client for programs that run in an event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from vpm_client import betting
from vpm_client.betting import Placed, Ticket
from vpm_client.bound import text_digest
from vpm_client.call import Amount, Call, Lost, Reply
from vpm_client.errors import VpmError, refusal
from vpm_client.events import MAX_PAUSE_SECONDS, PAUSE_SECONDS, Cursor, Frames, streaming
from vpm_client.models import AgentEvent, AgentWebhookAnswer
from vpm_client.operations import AsyncOperations
from vpm_client.shared import Configured, lost, passes, registering, registration, reply_of
from vpm_client.steps import Ask, Keep, Pause, Sign, Steps
from vpm_client.wallets import ask_text, ask_typed_data, checked

T = TypeVar("T")
KeepTicketAsync = Callable[[Ticket], object] | Callable[[Ticket], Awaitable[object]]


class AsyncClient(Configured[httpx.AsyncClient], AsyncOperations):
    """The agent API for asyncio: what `Client` does, awaited. The wallet and `keep` may be asynchronous."""

    _makes = httpx.AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    # ------------------------------------------------------------ bets

    async def bet(
        self,
        market: str,
        side: str,
        size_usd: Amount,
        *,
        idem_key: str | None = None,
        min_shares: Amount | None = None,
        builder_code: str | None = None,
        callback_url: str | None = None,
        ref: str | None = None,
        final: bool = True,
        keep: KeepTicketAsync | None = None,
    ) -> Placed:
        """As `Client.bet`. Cancelled, it may have paid: go on with the ticket that `keep` was shown."""
        ticket = await self.prepare(
            market,
            side,
            size_usd,
            idem_key=idem_key,
            min_shares=min_shares,
            builder_code=builder_code,
            callback_url=callback_url,
            ref=ref,
        )
        await _shown(keep, ticket)
        return await self.place(ticket, final=final, keep=keep)

    async def prepare(self, market: str, side: str, size_usd: Amount, **more: Any) -> Ticket:
        """As `Client.prepare`."""
        settings = self._settings
        return await self._do(betting.prepare(settings.address, settings.terms, market, side, size_usd, **more))

    async def place(self, ticket: Ticket, *, final: bool = True, keep: KeepTicketAsync | None = None) -> Placed:
        """As `Client.place`."""
        return await self._do(betting.place(ticket, self._settings.terms, final=final), keep)

    # ------------------------------------------------------------ events

    async def events(
        self, wallet: str | None = None, *, cursor: Cursor | None = None, trade_id: str | None = None
    ) -> AsyncIterator[AgentEvent]:
        """As `Client.events`."""
        cursor, wallet = cursor or Cursor(), wallet or self._settings.address
        pause = PAUSE_SECONDS
        while True:
            try:
                async for event in self._stream(wallet, cursor, trade_id):
                    pause = PAUSE_SECONDS
                    yield event
            except (httpx.HTTPError, VpmError) as error:
                if not passes(error):
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    async def _stream(self, wallet: str, cursor: Cursor, trade_id: str | None) -> AsyncIterator[AgentEvent]:
        call = streaming(wallet, trade_id, cursor)
        async with self._http.stream(**self._settings.request(call)) as response:
            if response.status_code != 200:
                await response.aread()
                reply = reply_of(response)
                raise refusal(reply.status, reply.headers, reply.body)
            frames = Frames()
            async for line in response.aiter_lines():
                event = frames.line(line)
                if event is None:
                    continue
                if trade_id is None and cursor.misses(event):
                    async for missed in self._between(wallet, cursor, event):
                        yield missed
                if cursor.take(event):
                    yield event

    async def _between(self, wallet: str, cursor: Cursor, event: AgentEvent) -> AsyncIterator[AgentEvent]:
        while cursor.misses(event):
            page = (await self.replay(wallet=wallet, from_seq=cursor.next_seq)).events
            for each in page:
                if cursor.take(each):
                    yield each
            if not page:
                return

    # ------------------------------------------------------------ webhooks

    async def register_webhook(self, url: str, *, service: str | None = None) -> AgentWebhookAnswer:
        """As `Client.register_webhook`."""
        message = registration(self._settings, url, service)
        wallet = self._settings.wallet_or_raise
        made = ask_text(wallet, message)
        signature = checked(wallet, text_digest(message), await made if inspect.isawaitable(made) else made)
        return await self._call(registering(self._settings.address, url, message, signature))

    # ------------------------------------------------------------ doing

    async def _call(self, call: Call[T]) -> T:
        return await self._do(self._settings.steps_of(call))

    async def _do(self, steps: Steps[T], keep: KeepTicketAsync | None = None) -> T:
        done: Any = None
        try:
            while True:
                step = steps.send(done)
                done = None
                if isinstance(step, Ask):
                    done = await self._ask(step.call)
                elif isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                elif isinstance(step, Sign):
                    wallet = self._settings.wallet_or_raise
                    made = ask_typed_data(wallet, step.typed)
                    made = await made if inspect.isawaitable(made) else made
                    done = checked(wallet, step.typed.digest, made)
                elif isinstance(step, Keep):
                    await _shown(keep, step.ticket)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _ask(self, call: Call[Any]) -> Reply | Lost:
        try:
            response = await self._http.request(**self._settings.request(call))
        except httpx.HTTPError as error:
            return lost(error)
        return reply_of(response)


async def _shown(keep: KeepTicketAsync | None, ticket: Ticket) -> None:
    kept = None if keep is None else keep(ticket)
    if inspect.isawaitable(kept):
        await kept
