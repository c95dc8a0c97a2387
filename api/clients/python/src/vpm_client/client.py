"""The client for programs that wait for each answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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
from vpm_client.operations import Operations
from vpm_client.shared import Configured, lost, passes, registering, registration, reply_of
from vpm_client.steps import Ask, Keep, Pause, Sign, Steps
from vpm_client.wallets import ask_text, ask_typed_data, at_once, checked

T = TypeVar("T")
KeepTicket = Callable[[Ticket], object]


class Client(Configured[httpx.Client], Operations):
    """The agent API at `base_url`, for one wallet if one is given. Reads need none.

    `http`: an httpx client of your own, which you close yourself. `patience_seconds`: how long a bet is tried;
    `final_seconds`: how long to wait then until its block is final. `token`, `contract`, `attester`: addresses to
    insist on, else those that the service names.
    """

    _makes = httpx.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._owns_http:
            self._http.close()

    # ------------------------------------------------------------ bets

    def bet(
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
        keep: KeepTicket | None = None,
    ) -> Placed:
        """Makes one bet, exactly once, and verifies its receipt. `final`: whether to wait until its block cannot be
        undone.

        `min_shares`: what it must give at least, else a hundredth under the quote. `keep` is shown the ticket whenever
        it changes, before anything is sent with it: written down, it outlives this process, and `place` goes on with
        it. With an `idem_key` of your own, calling this again with the same bet tells what became of the first call,
        whatever has closed since; `payment` is `UNKNOWN` where the service cannot say.
        """
        ticket = self.prepare(
            market,
            side,
            size_usd,
            idem_key=idem_key,
            min_shares=min_shares,
            builder_code=builder_code,
            callback_url=callback_url,
            ref=ref,
        )
        if keep is not None:
            keep(ticket)
        return self.place(ticket, final=final, keep=keep)

    def prepare(self, market: str, side: str, size_usd: Amount, **more: Any) -> Ticket:
        """The ticket of a bet; nothing is signed and nothing is paid. Takes what `bet` takes."""
        settings = self._settings
        return self._do(betting.prepare(settings.address, settings.terms, market, side, size_usd, **more))

    def place(self, ticket: Ticket, *, final: bool = True, keep: KeepTicket | None = None) -> Placed:
        """Goes on with a ticket, new or from before. However often it is called: one bet."""
        return self._do(betting.place(ticket, self._settings.terms, final=final), keep)

    # ------------------------------------------------------------ events

    def events(
        self, wallet: str | None = None, *, cursor: Cursor | None = None, trade_id: str | None = None
    ) -> Iterator[AgentEvent]:
        """A wallet's events, each once and in order, for ever. `cursor`: where to begin; it moves along, so keep its
        `next_seq` with your work and nothing is missed or seen twice across restarts either."""
        cursor, wallet = cursor or Cursor(), wallet or self._settings.address
        pause = PAUSE_SECONDS
        while True:
            try:
                for event in self._stream(wallet, cursor, trade_id):
                    pause = PAUSE_SECONDS
                    yield event
            except (httpx.HTTPError, VpmError) as error:
                if not passes(error):
                    raise
            time.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    def _stream(self, wallet: str, cursor: Cursor, trade_id: str | None) -> Iterator[AgentEvent]:
        call = streaming(wallet, trade_id, cursor)
        with self._http.stream(**self._settings.request(call)) as response:
            if response.status_code != 200:
                response.read()
                reply = reply_of(response)
                raise refusal(reply.status, reply.headers, reply.body)
            frames = Frames()
            for line in response.iter_lines():
                event = frames.line(line)
                if event is None:
                    continue
                if trade_id is None and cursor.misses(event):
                    yield from self._between(wallet, cursor, event)
                if cursor.take(event):
                    yield event

    def _between(self, wallet: str, cursor: Cursor, event: AgentEvent) -> Iterator[AgentEvent]:
        while cursor.misses(event):
            page = self.replay(wallet=wallet, from_seq=cursor.next_seq).events
            yield from filter(cursor.take, page)
            if not page:
                return

    # ------------------------------------------------------------ webhooks

    def register_webhook(self, url: str, *, service: str | None = None) -> AgentWebhookAnswer:
        """Pushes the wallet's events to a URL. Keep the `secret`: it is shown this once. `service`: the API's public
        origin, where that is not `base_url`."""
        message = registration(self._settings, url, service)
        wallet = self._settings.wallet_or_raise
        signature = checked(wallet, text_digest(message), at_once(ask_text(wallet, message)))
        return self._call(registering(self._settings.address, url, message, signature))

    # ------------------------------------------------------------ doing

    def _call(self, call: Call[T]) -> T:
        return self._do(self._settings.steps_of(call))

    def _do(self, steps: Steps[T], keep: KeepTicket | None = None) -> T:
        done: Any = None
        try:
            while True:
                step = steps.send(done)
                done = None
                if isinstance(step, Ask):
                    done = self._ask(step.call)
                elif isinstance(step, Pause):
                    time.sleep(step.seconds)
                elif isinstance(step, Sign):
                    wallet = self._settings.wallet_or_raise
                    done = checked(wallet, step.typed.digest, at_once(ask_typed_data(wallet, step.typed)))
                elif isinstance(step, Keep) and keep is not None:
                    keep(step.ticket)
        except StopIteration as end:
            result: T = end.value
            return result

    def _ask(self, call: Call[Any]) -> Reply | Lost:
        try:
            response = self._http.request(**self._settings.request(call))
        except httpx.HTTPError as error:
            return lost(error)
        return reply_of(response)
