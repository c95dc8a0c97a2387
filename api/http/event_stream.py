"""The common part of all server-sent event streams."""

from __future__ import annotations

import asyncio

from aiohttp import web

HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": still here\n\n"
# A slower reader counts as gone.
SLOW_SECONDS = 5.0
# Less than this fits into an empty buffer without waiting (aiohttp waits from 64 kB on).
SURELY_TAKEN_BYTES = 16 * 1024
HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


async def written(request: web.Request, response: web.StreamResponse, chunk: bytes) -> bool:
    """Write a chunk; return False, having closed the connection, if the client does not read."""
    transport = request.transport
    if transport is not None and transport.get_write_buffer_size() == 0 and len(chunk) < SURELY_TAKEN_BYTES:
        await response.write(chunk)  # does not wait
        return True
    try:
        async with asyncio.timeout(SLOW_SECONDS):
            await response.write(chunk)
    except TimeoutError:
        if transport is not None:
            transport.abort()
        return False
    return True
