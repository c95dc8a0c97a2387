"""Server-sent event streams: what they have in common, whatever they tell."""

from __future__ import annotations

import asyncio

from aiohttp import web

HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": still here\n\n"
# A reader that takes longer is gone, or as good as gone.
SLOW_SECONDS = 5.0
# Less than this goes into an empty buffer without waiting for the other side (aiohttp waits from 64 kB on).
SURELY_TAKEN_BYTES = 16 * 1024
HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


async def written(request: web.Request, response: web.StreamResponse, chunk: bytes) -> bool:
    """False, and the connection is gone, when the other side does not read."""
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
