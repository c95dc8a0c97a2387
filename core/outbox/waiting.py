"""Waiting for an intent to reach a state: one LISTEN connection per process, however many wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from types import TracebackType
from typing import Self

from core.db.channels import OUTBOX_STATE, Resync, listen
from core.db.engine import ConnectionPool
from core.outbox.intents import Intent, read
from core.outbox.states import IntentState
from core.service.cancelling import cancel_and_wait

# The states with an outcome (mined or refused), and those with at least a transaction hash.
HAS_RESULT = frozenset({IntentState.MINED, IntentState.FINAL, IntentState.FAILED, IntentState.REPLACED})
HAS_HASH = HAS_RESULT | {IntentState.SENT}

# A notification may be lost with its connection, so read again this often in any case.
_POLL_SECONDS = 2.0


class IntentWatch:
    """A watch on intents for any number of waiters: `async with IntentWatch(database_url, pool) as watch`."""

    def __init__(self, url: str, pool: ConnectionPool) -> None:
        self._url = url
        self._pool = pool
        # The states each waiter waits for, by intent and in the order of arrival.
        self._waiting: dict[int, dict[asyncio.Event, frozenset[IntentState]]] = defaultdict(dict)
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._listening = asyncio.create_task(self._listen(), name="outbox watch")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._listening is not None:
            await cancel_and_wait(self._listening)

    async def wait(self, intent_id: int, states: frozenset[IntentState], *, timeout_seconds: float) -> Intent:
        """Return the intent once it is in one of `states`, or as it is on timeout; raise LookupError for an unknown
        id."""
        moved = asyncio.Event()
        self._waiting[intent_id][moved] = states
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        try:
            while True:
                moved.clear()  # before the read, so that a later change wakes us
                async with self._pool.connection() as connection:
                    intent = await read(connection, intent_id)
                if intent is None:
                    raise LookupError(f"there is no intent {intent_id}")
                left = deadline - asyncio.get_running_loop().time()
                if intent.state in states or left <= 0:
                    return intent
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, _POLL_SECONDS)):
                        await moved.wait()
        finally:
            del self._waiting[intent_id][moved]
            if not self._waiting[intent_id]:
                del self._waiting[intent_id]

    async def _listen(self) -> None:
        async with contextlib.aclosing(listen(self._url, OUTBOX_STATE)) as signals:
            async for moved in signals:
                for intent_id in list(self._waiting) if isinstance(moved, Resync) else moved:
                    for event, states in self._waiting.get(intent_id, {}).items():
                        if isinstance(moved, Resync) or moved[intent_id] in states:
                            event.set()
