"""The client for programs that wait for each answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from vpm_client.call import Call, Lost, Reply
from vpm_client.errors import VpmError
from vpm_client.events import MAX_PAUSE_SECONDS, PAUSE_SECONDS, Cursor, Frames, streaming
from vpm_client.models import AgentEvent
from vpm_client.shared import Configured, lost, passes, refused, reply_of
from vpm_client.steps import Ask, Keep, Pause, Sign, Steps
from vpm_client.wallets import ask_signature, at_once, checked

T = TypeVar("T")


class Client(Configured[httpx.Client]):
    __doc__ = Configured.__doc__

    _makes = httpx.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._owns_http:
            self._http.close()

    # ------------------------------------------------------------ events

    def events(
        self, wallet: str | None = None, *, cursor: Cursor | None = None, trade_id: str | None = None
    ) -> Iterator[AgentEvent]:
        """A wallet's events, each once and in order, for ever. `cursor`: where to begin; it moves along, so keep its
        `next_seq` with your work and nothing is missed or seen twice across restarts either."""
        cursor, wallet = cursor or Cursor(), wallet or self.settings.address
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
        with self._http.stream(**self._request(call)) as response:
            if response.status_code != 200:
                response.read()
                raise refused(response)
            frames = Frames(cursor, whole=trade_id is None)
            for line in response.iter_lines():
                event = frames.line(line)
                if event is not None:
                    yield event

    # ------------------------------------------------------------ doing

    def do(self, steps: Steps[T]) -> T:
        """Do what these steps ask for, and return what they come to."""
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
                    wallet = self.settings.wallet_or_raise
                    done = checked(wallet, step.message, at_once(ask_signature(wallet, step.message)))
                elif isinstance(step, Keep):
                    step.show(step.ticket)
        except StopIteration as end:
            result: T = end.value
            return result

    def _ask(self, call: Call[Any]) -> Reply | Lost:
        try:
            response = self._http.request(**self._request(call))
        except httpx.HTTPError as error:
            return lost(error)
        return reply_of(response)
