"""Starts, supervises and stops daemons.

    @asynccontextmanager
    async def setup(daemon: Daemon) -> AsyncIterator[None]:
        async with make_pool(...) as pool:  # closed after the tasks have ended
            daemon.health.add_check("chain base", ...)
            daemon.spawn("tail base", tail(pool))
            yield  # ready from here on

    sys.exit(run_daemon("indexer", setup, metrics_port=lambda settings: settings.indexer_metrics_port))

A task that raises or returns stops the daemon with a log line and a non-zero exit code. SIGTERM and SIGINT set
`daemon.stop`, which cancels the tasks. Tasks that have not cleaned up after `VPM_STOP_GRACE_SECONDS`, or at a second
signal, are cancelled again. When ready, the daemon writes the file `VPM_READY_FILE` ({daemon, pid, metrics}), if set.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import uvloop

from core import log as logging
from core.config import Settings, exposed_files, load, unknown_variables
from core.db.engine import connect
from core.errors import EXIT_CRASH, VpmError
from core.service.cancelling import cancel_and_wait
from core.service.health import HealthServer

log = logging.get_logger(__name__)

Setup = Callable[["Daemon"], AbstractAsyncContextManager[None]]


class Daemon:
    def __init__(self, name: str, settings: Settings, health: HealthServer) -> None:
        self.name = name
        self.settings = settings
        self.health = health
        self.stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.crash: tuple[str, BaseException] | None = None
        self.started = False
        self.is_ending = False

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run endless `work` as a supervised task, and cancel the task when the daemon stops. Cancellation must be safe
        at any point: each step of `work` is one transaction or changes only memory."""
        task = asyncio.create_task(work, name=name)
        self._tasks.append(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.remove(task)
        if task.cancelled():
            error: BaseException | None = None if self.stop.is_set() else asyncio.CancelledError("cancelled")
        else:
            error = task.exception()
        if error is None and not self.stop.is_set():
            error = RuntimeError("the task ended before the daemon was stopped")
        if error is not None and self.crash is None:
            self.crash = (task.get_name(), error)
            self.stop.set()

    async def drain(self, grace_seconds: float, hurry: asyncio.Event) -> None:
        """Cancel all tasks. After `grace_seconds`, or as soon as `hurry` is set, cancel the remaining tasks again."""
        hurried = asyncio.create_task(hurry.wait())
        ending = asyncio.create_task(cancel_and_wait(*self._tasks))
        await asyncio.wait((ending, hurried), timeout=grace_seconds, return_when=asyncio.FIRST_COMPLETED)
        left = list(self._tasks)
        if left:
            names = [task.get_name() for task in left]
            log.warning("tasks did not stop in time; cancelling them again", action="daemon.cancelled", tasks=names)
        await cancel_and_wait(hurried, *left)
        await ending


def run_daemon(name: str, setup: Setup, *, metrics_port: Callable[[Settings], int]) -> int:
    """Run a daemon until it is stopped or a task fails, and return the process's exit code."""
    try:
        settings = load(Settings)
    except VpmError as error:
        print(f"{name}: {error.sentence()}", file=sys.stderr, flush=True)
        return error.exit_code
    logging.configure(settings.log_level, settings.log_format)
    for sentence in (*unknown_variables(), *exposed_files()):
        log.warning(sentence, action="config.unknown_variable")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(name, setup, settings, metrics_port(settings)))


async def serve(name: str, setup: Setup, settings: Settings, metrics_port: int) -> int:
    """Run a daemon in the running loop, and return its exit code."""
    health = HealthServer(settings.metrics_host, metrics_port)
    health.add_check("database", lambda: _database(settings.database_url.get_secret_value()))
    daemon = Daemon(name, settings, health)
    hurry = asyncio.Event()
    reasons: list[str] = []

    def on_signal(number: signal.Signals) -> None:
        if reasons:
            hurry.set()
        reasons.append(number.name)
        daemon.stop.set()

    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, on_signal, each)
    living = asyncio.create_task(_live(daemon, setup, hurry))
    stopping = asyncio.create_task(daemon.stop.wait())
    try:
        await asyncio.wait((living, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not living.done() and not daemon.started and not daemon.is_ending:
            living.cancel()  # stopped while still starting
        try:
            await living
        except asyncio.CancelledError as error:
            if not reasons and daemon.crash is None:  # cancelled from within, without a request to stop
                return _crashed(name, "stop" if daemon.started else "start", error)
    except Exception as error:
        return _crashed(name, "stop" if daemon.started else "start", error)
    finally:
        await cancel_and_wait(stopping)
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
    if daemon.crash is not None:
        return _crashed(name, *daemon.crash)
    log.info("the daemon stopped", action="daemon.stopped", daemon=name, because=reasons[0] if reasons else "requested")
    return 0


async def _database(url: str) -> tuple[bool, str]:
    """Check the database on a new connection, because the pools may be exhausted."""
    async with await connect(url, connect_timeout_seconds=2, application_name="vpm-health") as connection:
        await connection.execute("SELECT 1")
    return True, "responds"


async def _live(daemon: Daemon, setup: Setup, hurry: asyncio.Event) -> None:
    async with daemon.health:
        try:
            async with setup(daemon):
                try:
                    daemon.started = True
                    if not daemon.stop.is_set():
                        daemon.health.is_ready = True
                        _announce_ready(daemon)
                        await daemon.stop.wait()
                finally:
                    daemon.health.is_ready = False
                    daemon.stop.set()
                    await daemon.drain(daemon.settings.stop_grace_seconds, hurry)
        finally:  # for tasks spawned by a setup that then failed
            daemon.is_ending = True
            daemon.stop.set()
            await daemon.drain(0.0, hurry)


def _crashed(daemon: str, part: str, error: BaseException) -> int:
    if isinstance(error, VpmError):
        log.error(error.sentence(), action="daemon.crashed", daemon=daemon, part=part, code=error.code)
        return error.exit_code
    log.error(f"{type(error).__name__}: {error}", action="daemon.crashed", daemon=daemon, part=part, exc=error)
    return EXIT_CRASH


def _announce_ready(daemon: Daemon) -> None:
    path = os.environ.get("VPM_READY_FILE")
    if path:
        content = {"daemon": daemon.name, "pid": os.getpid(), "metrics": f"{daemon.health.url}/metrics"}
        partial = Path(f"{path}.{os.getpid()}")
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(content))
        partial.replace(path)
    log.info("the daemon is ready", action="daemon.ready", daemon=daemon.name, metrics=daemon.health.url)
