"""Serves a test's application on a port of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

SHUTDOWN_SECONDS = 0.2
"""For what it still answers when the test is over: mostly what it means never to answer."""


@asynccontextmanager
async def serving(app: web.Application | web.Server, port: int = 0) -> AsyncIterator[str]:
    if isinstance(app, web.Application):
        runner: web.BaseRunner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS
        )
    else:
        runner = web.ServerRunner(app, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
