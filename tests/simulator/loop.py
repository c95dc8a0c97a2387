"""An event loop in virtual time, and the processes that live in it. A process is a context variable, which all its
tasks inherit. Killing a process drops all its callbacks between two steps of the loop and so between two awaits. No
`finally` and no `except` runs, as with SIGKILL."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import heapq
import itertools
import selectors
import traceback
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from tests.simulator.clock import VirtualClock

# Of a world's own time: every story is over in a quarter of it.
ROUNDS_AT_ONCE = 10_000
MAX_SECONDS = 3_600
STEPS_AT_ONCE = 4_096


@dataclass(eq=False)
class Process:
    """One life of a simulated process. `tasks` keeps what it ran, because collecting a dead task would run its
    `finally` blocks."""

    name: str
    dead: bool = False
    steps: int = 0
    kill_at: int | None = None
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    on_kill: list[Callable[[], None]] = field(default_factory=list)
    stop: Callable[[], None] | None = None  # what SIGTERM does
    graveyard: list[Any] = field(default_factory=list)

    def kill(self) -> None:
        if self.dead:
            return
        self.dead = True
        for end in self.on_kill:
            end()


WORLD = Process("world")
PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("PROCESS", default=WORLD)


@contextmanager
def inside(process: Process) -> Iterator[None]:
    token = PROCESS.set(process)
    try:
        yield
    finally:
        PROCESS.reset(token)


def _named(callback: Any) -> str:
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return f"{getattr(task.get_coro(), '__qualname__', '?')} {getattr(task, '_number', '')}"
    return str(getattr(callback, "__qualname__", type(callback).__name__))


NOTE: list[Callable[[str, str], None]] = []


def _due(context: contextvars.Context | None, callback: Any) -> bool:
    process = context.get(PROCESS, WORLD) if context is not None else WORLD
    if process is WORLD:
        return True
    if not process.dead:
        process.steps += 1
        if NOTE:
            NOTE[0](process.name, _named(callback))
        if process.kill_at is not None and process.steps >= process.kill_at:
            process.kill()
    return not process.dead


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address, which differs between runs."""

    def __init__(self, work: Any, *, loop: VirtualLoop, **given: Any) -> None:
        self._number = next(loop.numbers)
        super().__init__(work, loop=loop, **given)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    def __init__(self, *, loop: VirtualLoop) -> None:
        self._number = next(loop.numbers)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class _Handle(events.Handle):
    def _run(self) -> None:
        if _due(self._context, self._callback):  # type: ignore[attr-defined]
            super()._run()


class _TimerHandle(events.TimerHandle):
    def _run(self) -> None:
        if _due(self._context, self._callback):  # type: ignore[attr-defined]
            super()._run()


class _Jump(selectors.SelectSelector):
    """A selector that waits for nothing outside. When no task has anything to do, time moves on."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self._rounds = 0  # of the loop without a pause, at one moment
        self._at_us = 0
        self.before_jump: Callable[[float | None], bool] = lambda _: False

    def select(self, timeout: float | None = None) -> list[Any]:
        if self._clock.elapsed > MAX_SECONDS:
            raise RuntimeError(f"it is not over after {MAX_SECONDS} s")
        if timeout == 0:
            self._go_on()
            return []
        if self.before_jump(timeout):
            return []
        if timeout is None:
            raise RuntimeError("everybody waits for ever")
        self._clock.advance(timeout)
        return []

    def _go_on(self) -> None:
        """Let time pass for a waiter that polls at intervals shorter than its clock shows; otherwise it would poll for
        ever."""
        if self._clock.elapsed_us != self._at_us:
            self._at_us, self._rounds = self._clock.elapsed_us, 0
        self._rounds += 1
        if self._rounds == ROUNDS_AT_ONCE:
            self._clock.advance(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop of a simulated world. `on_jump` gets the number of seconds before time moves, and returns True if there
    is something to do now."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.numbers = itertools.count()
        self._jump = _Jump(clock)
        super().__init__(self._jump)
        self._clock_resolution = 1e-6
        self.slow_callback_duration = 1e9
        self.trace = hashlib.sha256()
        self.trace_file: IO[str] | None = None
        self._steps: list[str] = []
        NOTE[:] = [self.note]
        self.set_task_factory(self._task)
        self.failures: list[str] = []
        self.set_exception_handler(self._unhandled)

    def on_jump(self, before: Callable[[float | None], bool]) -> None:
        self._jump.before_jump = before

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def note(self, who: str, what: str) -> None:
        """Add to the digest by which two runs of a seed are compared."""
        self._steps.append(f"{self.clock.elapsed_us} {who} {what}\n")
        if len(self._steps) == STEPS_AT_ONCE:
            self.write_trace()

    def write_trace(self) -> None:
        lines = "".join(self._steps)
        self._steps.clear()
        self.trace.update(lines.encode())
        if self.trace_file is not None:
            self.trace_file.write(lines)

    def time(self) -> float:
        return self.clock.monotonic

    def _task(self, _loop: asyncio.AbstractEventLoop, work: Any, **given: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = _Task(work, loop=self, **given)
        process = PROCESS.get()
        process.tasks.add(task)
        task.add_done_callback(process.tasks.discard, context=contextvars.Context())
        return task

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, found: dict[str, Any]) -> None:
        error = found.get("exception")
        if error is not None and _lost_as_it_was_taken_up(error):
            return
        where = "".join(traceback.format_tb(error.__traceback__)[-2:]) if error is not None else ""
        self.failures.append(f"{found.get('message')}: {error!r} {where}")

    def _call_soon(self, callback: Any, args: Any, context: Any) -> events.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> events.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> Any:
        """Run the function in place: threads would have a nondeterministic order."""
        future = self.create_future()
        try:
            result = func(*args)
        except BaseException as error:
            self.call_later(0.001, _settle, future, None, error)
        else:
            self.call_later(0.001, _settle, future, result, None)
        return future

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:  # type: ignore[override]
        process = PROCESS.get()
        process.stop = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        return True


def _lost_as_it_was_taken_up(error: BaseException) -> bool:
    """Return whether this is aiohttp's TypeError for a request whose connection was lost just as its server began to
    handle it. There is no caller left to respond to. Any other TypeError is a mistake."""
    if not isinstance(error, TypeError):
        return False
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename.endswith("aiohttp/web_protocol.py") and "self._request_factory(" in (last.line or "")


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
