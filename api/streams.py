"""The code shared by all streams of server-sent events."""

from __future__ import annotations

import asyncio

from aiohttp import web

HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": heartbeat\n\n"
# A client that takes longer to read a chunk is disconnected.
SLOW_SECONDS = 5.0
# A smaller chunk fits into an empty buffer without waiting (aiohttp waits from 64 kB on).
NO_WAIT_BYTES = 16 * 1024
HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


async def write_chunk(request: web.Request, response: web.StreamResponse, chunk: bytes) -> bool:
    """Write a chunk and return True. If the client reads too slowly, close the connection and return False."""
    transport = request.transport
    if transport is not None and transport.get_write_buffer_size() == 0 and len(chunk) < NO_WAIT_BYTES:
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
