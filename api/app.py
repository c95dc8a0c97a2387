"""One origin: every surface composed on one aiohttp application, and the application served.

To add a surface, write a context manager that takes a `Context` and yields a `Surface`, and name it in `SURFACES`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from aiohttp import web

from api.agent.surface import agent_surface
from api.context import Context
from api.cup.surface import cup_surface
from api.http.application import application
from api.http.caller import caller_ip
from api.http.docs import docs_surface
from api.http.malformed import ClientConnection, RefusingRunner
from api.http.operation import Surface
from api.http.requests import BODY_TIMEOUT, BodyTimeout
from api.stock.surface import stock_surface
from api.web.surface import pages_surface
from core.config import Settings
from core.errors import ConfigError

MakeSurface = Callable[[Context], AbstractAsyncContextManager[Surface]]

TITLE = "VPM"
SURFACES: tuple[MakeSurface, ...] = (stock_surface, agent_surface, cup_surface)

# How long open requests may take after the stop signal; a relayed bet takes up to 10 s.
IDLE_SECONDS = 75.0
SHUTDOWN_SECONDS = 12.0
# How long to keep reading a body after answering, so that the client gets the answer before a reset.
LINGERING_SECONDS = 1.0
BACKLOG = 1024
# The most a documented request needs: 4,500 characters of query in escaped UTF-8, and a payment header with a contract
# wallet's signature. aiohttp refuses longer ones before any of our code runs.
MAX_LINE_BYTES = 64 * 1024
MAX_HEADER_BYTES = 40 * 1024  # each: a payment may have 32 KiB, and we explain why a longer one is refused


@asynccontextmanager
async def make_app(context: Context) -> AsyncIterator[web.Application]:
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(make(context)) for make in SURFACES]
        docs = docs_surface(made, title=TITLE, server=context.settings.public_url)
        pages = await pages_surface(context, [*made, docs])
        yield bounded(application([*made, docs, pages]), context.settings)


def bounded(app: web.Application, settings: Settings) -> web.Application:
    """Limit how many request bodies of one caller the application waits for."""
    app[BODY_TIMEOUT] = BodyTimeout(lambda request: caller_ip(request, settings))
    return app


@asynccontextmanager
async def serve(
    app: web.Application, host: str, port: int, *, idle_seconds: float = IDLE_SECONDS
) -> AsyncIterator[int]:
    """Serve until the context exits; yield the port, which matters when 0 was asked for. Connections without a request
    for `idle_seconds` are closed, including those that never sent one."""
    # No access log: it would record which wallets people look up.
    runner = RefusingRunner(
        app,
        access_log=None,
        shutdown_timeout=SHUTDOWN_SECONDS,
        max_line_size=MAX_LINE_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        auto_decompress=False,  # a small compressed body can inflate to any size
        lingering_time=LINGERING_SECONDS,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=BACKLOG)
        try:
            await site.start()
        except OSError as error:
            raise ConfigError(
                f"Cannot listen on {host}:{port}: {error.strerror or error}.", hint="Set VPM_HOST or VPM_PORT."
            ) from None
        ending = asyncio.create_task(_end_idle(runner, idle_seconds))
        try:
            yield int(runner.addresses[0][1])
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
    finally:
        await runner.cleanup()


async def _end_idle(runner: web.AppRunner, seconds: float) -> None:
    """Close idle connections; aiohttp closes only those that have completed a request."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(seconds / 4)
        server = runner.server
        for each in [] if server is None else server.connections:
            if isinstance(each, ClientConnection) and not each.is_asking and loop.time() - each.asked_at >= seconds:
                each.force_close()
