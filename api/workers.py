"""Several API processes on one port: the kernel spreads connections over them (SO_REUSEPORT).

The parent serves no requests: it exposes the workers' combined metrics and restarts workers that exit.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

from prometheus_client.multiprocess import mark_process_dead

from core.errors import EXIT_CONFIG, ConfigError, ProcessError
from core.log import get_logger
from core.metrics import counter
from core.service.daemon import Daemon

log = get_logger(__name__)

RESTARTS = counter("vpm_api_worker_restarts", "Workers that were restarted after they exited")

# A worker that exits sooner counts as failed; this many failures in a row stop the service.
SHORT_LIFE_SECONDS = 10.0
FAILURES_ALLOWED = 5


async def keep_worker(daemon: Daemon, number: int) -> None:
    """Keep one worker running until the daemon stops. ConfigError if its first start finds the settings wrong."""
    failures, is_first = 0, True
    while not daemon.stop.is_set():
        started = time.monotonic()
        code = await _run_worker(daemon, number)
        if daemon.stop.is_set():
            return
        if is_first and code == EXIT_CONFIG:
            raise ConfigError(
                f"Worker {number} cannot start with these settings.", hint="The worker's own log line says why."
            )
        is_first = False
        failures = failures + 1 if time.monotonic() - started < SHORT_LIFE_SECONDS else 0
        if failures >= FAILURES_ALLOWED:
            raise ProcessError(f"Worker {number} exited {failures} times in a row, last with code {code}.")
        log.warning("a worker exited", action="api.worker_ended", worker=number, code=code)
        RESTARTS.inc()
        await daemon.sleep(min(2.0**failures * 0.1, 5.0))


async def _run_worker(daemon: Daemon, number: int) -> int:
    # The worker watches VPM_PARENT_PID and exits when this process is gone. This process writes the ready file.
    env = {name: value for name, value in os.environ.items() if name not in ("VPM_READY_FILE", "NOTIFY_SOCKET")}
    env |= {"VPM_PARENT_PID": str(os.getpid()), "VPM_API_METRICS_PORT": "0", "VPM_PORT": str(daemon.settings.port)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "api", "--worker", str(number), env=env, stdin=asyncio.subprocess.DEVNULL
    )
    ended = asyncio.create_task(process.wait())
    stopping = asyncio.create_task(daemon.stop.wait())
    try:
        await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            process.send_signal(signal.SIGTERM)
        return await ended
    finally:
        stopping.cancel()
        if process.returncode is None:
            process.kill()
        mark_process_dead(process.pid)  # type: ignore[no-untyped-call]  # drop its gauges
