"""One origin: every surface composed on one aiohttp application, and the application served.

To add a surface, write a context manager that takes a `Context` and yields a `Surface`, and name it in `SURFACES`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
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

# How long open requests may take once the service was told to stop; a relay answer takes up to 10 s.
IDLE_SECONDS = 75.0
SHUTDOWN_SECONDS = 12.0
# How long the rest of a body is read after its request was answered, so that the answer is not lost on the way.
LINGERING_SECONDS = 1.0
BACKLOG = 1024
# What a documented request may need at most: 4,500 characters of query in escaped UTF-8, and a payment header with a
# contract wallet's signature. Longer ones are refused before any of our code sees them.
MAX_LINE_BYTES = 64 * 1024
MAX_HEADER_BYTES = 40 * 1024  # of one: a payment may have 32 KiB, and a longer one is answered in words


@asynccontextmanager
async def make_app(context: Context, surfaces: Sequence[MakeSurface] = SURFACES) -> AsyncIterator[web.Application]:
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(make(context)) for make in surfaces]
        docs = docs_surface(made, title=TITLE, server=context.settings.public_url)
        pages = await stack.enter_async_context(pages_surface(context, [*made, docs]))
        yield bounded(application([*made, docs, pages]), context.settings)


def bounded(app: web.Application, settings: Settings) -> web.Application:
    """The application, which waits for so many bodies of a caller."""
    app[BODY_TIMEOUT] = BodyTimeout(lambda request: caller_ip(request, settings))
    return app


@asynccontextmanager
async def serve(
    app: web.Application, host: str, port: int, *, reuse_port: bool = False, idle_seconds: float = IDLE_SECONDS
) -> AsyncIterator[int]:
    """Serves until the context is left; yields the port, which may have been asked for as 0. A connection that asks
    nothing for `idle_seconds` is ended, whether it asked before or never."""
    # No access log: it would hold the addresses people ask about.
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
        site = web.TCPSite(runner, host, port, reuse_port=reuse_port, backlog=BACKLOG)
        try:
            await site.start()
        except OSError as error:
            raise ConfigError(
                f"{host}:{port} cannot be listened on: {error.strerror or error}.", hint="Set VPM_HOST or VPM_PORT."
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
    """aiohttp ends a connection that has been answered, and none that never finished asking."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(seconds / 4)
        server = runner.server
        for each in [] if server is None else server.connections:
            if isinstance(each, ClientConnection) and not each.is_asking and loop.time() - each.asked_at >= seconds:
                each.force_close()
