"""The tournament alone, served by a process of its own, to be killed: `python -m tests.faults.cup_victim URL PORT`."""

from __future__ import annotations

import asyncio
import sys

from api.app import make_app, serve
from api.context import open_context
from api.cup.surface import cup_surface
from core.config import ApiSecrets
from tests.support.cup_rig import settings_for


async def _serve(database_url: str, port: int) -> None:
    tasks: list[asyncio.Task[None]] = []
    async with (
        open_context(
            settings_for(database_url),
            ApiSecrets(),
            lambda name, work: tasks.append(asyncio.create_task(work, name=name)),
        ) as context,
        make_app(context, (cup_surface,)) as app,
        serve(app, "127.0.0.1", port, reuse_port=True),
    ):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
