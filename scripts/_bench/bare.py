"""The baseline of `./vpm bench api`: an aiohttp handler that returns constant bytes, and nothing else.

python -m scripts._bench.bare PORT BODY_FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvloop
from aiohttp import web


def main() -> None:
    port, body = int(sys.argv[1]), Path(sys.argv[2]).read_bytes()

    async def constant(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/", constant)
    loop = uvloop.new_event_loop()
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, loop=loop, print=None)


if __name__ == "__main__":
    main()
