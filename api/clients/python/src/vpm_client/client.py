"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from vpm_client.base import BaseClient, error_of, is_transient, lost, reply_of
from vpm_client.call import Call, Lost, Reply
from vpm_client.errors import VpmError
from vpm_client.events import MAX_PAUSE_SECONDS, PAUSE_SECONDS, Cursor, EventParser, stream_call
from vpm_client.models import AgentEvent
from vpm_client.steps import Keep, Pause, Send, Sign, Steps
from vpm_client.wallets import check_signature, request_signature, require_sync

T = TypeVar("T")


class Client(BaseClient[httpx.Client]):
    __doc__ = BaseClient.__doc__

    _http_class = httpx.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._owns_http:
            self._http.close()

    def events(
        self, wallet: str | None = None, *, cursor: Cursor | None = None, trade_id: str | None = None
    ) -> Iterator[AgentEvent]:
        """Yield a wallet's events forever, each once and in order, and advance `cursor`. If you save `cursor.next_seq`
        together with your work, no event is missed or repeated after a restart."""
        cursor, wallet = cursor or Cursor(), wallet or self.settings.address
        pause = PAUSE_SECONDS
        while True:
            try:
                for event in self._stream(wallet, cursor, trade_id):
                    pause = PAUSE_SECONDS
                    yield event
            except (httpx.HTTPError, VpmError) as error:
                if not is_transient(error):
                    raise
            time.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    def _stream(self, wallet: str, cursor: Cursor, trade_id: str | None) -> Iterator[AgentEvent]:
        call = stream_call(wallet, trade_id, cursor)
        with self._http.stream(**self._request(call)) as response:
            if response.status_code != 200:
                response.read()
                raise error_of(response)
            parser = EventParser(cursor, contiguous=trade_id is None)
            for line in response.iter_lines():
                event = parser.line(line)
                if event is not None:
                    yield event

    def do(self, steps: Steps[T]) -> T:
        done: Any = None
        try:
            while True:
                step = steps.send(done)
                done = None
                if isinstance(step, Send):
                    done = self._send(step.call)
                elif isinstance(step, Pause):
                    time.sleep(step.seconds)
                elif isinstance(step, Sign):
                    wallet = self.settings.wallet_or_raise
                    done = check_signature(wallet, step.message, require_sync(request_signature(wallet, step.message)))
                elif isinstance(step, Keep):
                    step.show(step.ticket)
        except StopIteration as end:
            result: T = end.value
            return result

    def _send(self, call: Call[Any]) -> Reply | Lost:
        try:
            response = self._http.request(**self._request(call))
        except httpx.HTTPError as error:
            return lost(error)
        return reply_of(response)
