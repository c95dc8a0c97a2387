"""The API daemon: `python -m api [--workers N]`."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

# Before anything measures: with this set, prometheus_client keeps its numbers where all workers' can be added up.
if "--workers" in " ".join(sys.argv) and "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
    _folder = os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="vpm-api-metrics-")
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)

from sqlalchemy.exc import OperationalError

from api.app import make_app, serve
from api.context import open_context
from api.workers import keep_worker
from core.config import ApiSecrets, Settings, load
from core.db.heartbeat import beat_forever
from core.db.migrate import check_fit
from core.errors import ConfigError, DatabaseUnreachable
from core.log import get_logger
from core.service.daemon import Daemon, Setup, run_daemon

log = get_logger("api")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="api", description="Serve the public HTTP API.")
    parser.add_argument("--workers", type=_count, default=1, metavar="N", help="processes on the same port")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.workers == 1 or options.worker is not None:
        setup = _serving(reuse_port=options.worker is not None)
    else:
        setup = _supervising(options.workers)
    return run_daemon("api", setup, metrics_port=lambda settings: settings.api_metrics_port)


def _serving(*, reuse_port: bool) -> Setup:
    @asynccontextmanager
    async def setup(daemon: Daemon) -> AsyncIterator[None]:
        secrets = load(ApiSecrets)
        settings = daemon.settings
        await _refuse_an_unfit_database(settings)
        async with (
            open_context(settings, secrets, daemon.spawn_endless) as context,
            make_app(context) as app,
            serve(app, settings.host, settings.port, reuse_port=reuse_port) as port,
        ):
            daemon.spawn_endless("heartbeat", beat_forever(context.pool, "api"))
            freeze_loaded_objects()
            log.info("serving", action="api.serving", url=f"http://{settings.host}:{port}")
            yield

    return setup


async def _refuse_an_unfit_database(settings: Settings) -> None:
    """Raise DatabaseRefused or SchemaOutdated before serving: during a rollout the previous version keeps running until
    the migration is done. An unreachable database does not stop the start."""
    with suppress(OperationalError, DatabaseUnreachable):
        await check_fit(settings)


def freeze_loaded_objects() -> None:
    """Exempt everything loaded so far from garbage collection: scanning it blocks the event loop for 0.1 s."""
    gc.collect()
    gc.freeze()


def _supervising(workers: int) -> Setup:
    @asynccontextmanager
    async def setup(daemon: Daemon) -> AsyncIterator[None]:
        if not hasattr(socket, "SO_REUSEPORT"):
            raise ConfigError("This system cannot share a port between processes.", hint="Use one worker.")
        if daemon.settings.port == 0:
            raise ConfigError("Several workers need one port: VPM_PORT is 0.", hint="Set VPM_PORT.")
        if daemon.settings.limits_storage_url.get_secret_value() == "memory://":
            log.warning(
                "each worker counts rate limits on its own; set VPM_LIMITS_STORAGE_URL to a Redis to share them",
                action="api.limits_per_worker",
            )
        load(ApiSecrets)  # a wrong secret should stop this process, not every worker
        for number in range(1, workers + 1):
            daemon.spawn(f"worker {number}", keep_worker(daemon, number))
        yield

    return setup


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 64:
        raise argparse.ArgumentTypeError("from 1 to 64 workers")
    return value


if __name__ == "__main__":
    sys.exit(main())
