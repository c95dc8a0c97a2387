"""The API daemon: `python -m api`."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from sqlalchemy.exc import OperationalError

from api.app import make_app, serve
from api.context import open_context
from core.config import ApiSecrets, Settings, load
from core.db.heartbeat import beat_forever
from core.db.migrate import check_fit
from core.errors import DatabaseUnreachable
from core.log import get_logger
from core.service.daemon import Daemon, run_daemon

log = get_logger("api")


def main() -> int:
    argparse.ArgumentParser(prog="api", description="Serve the public HTTP API.").parse_args()
    return run_daemon("api", serving, metrics_port=lambda settings: settings.api_metrics_port)


@asynccontextmanager
async def serving(daemon: Daemon) -> AsyncIterator[None]:
    secrets = load(ApiSecrets)
    settings = daemon.settings
    await _refuse_an_unfit_database(settings)
    async with (
        open_context(settings, secrets, daemon.spawn) as context,
        make_app(context) as app,
        serve(app, settings.host, settings.port) as port,
    ):
        daemon.spawn("heartbeat", beat_forever(context.pool, "api"))
        freeze_loaded_objects()
        log.info("serving", action="api.serving", url=f"http://{settings.host}:{port}")
        yield


async def _refuse_an_unfit_database(settings: Settings) -> None:
    """Raise DatabaseRefused or SchemaOutdated if the database is unfit. If this happens during a rollout, the previous
    version keeps running until the migration is done. The API starts even if the database is unreachable."""
    with suppress(OperationalError, DatabaseUnreachable):
        await check_fit(settings)


def freeze_loaded_objects() -> None:
    """Exempt all objects loaded so far from garbage collection. Scanning them would block the event loop for 0.1 s."""
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
