"""From a plan of scripts._local to a child of our supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from scripts._local import guard
from scripts._local.process import SpawnPlan
from scripts._stack.supervisor import Child


def child(plan: SpawnPlan, answers: Callable[[], bool], *, name: str, stop_seconds: float = 10.0) -> Child:
    """`answers` is asked, in a thread, until it says yes."""

    async def ready() -> None:
        while not await asyncio.to_thread(answers):
            await asyncio.sleep(0.05)

    argv, user = list(plan.argv), plan.user
    if not sys.platform.startswith("linux"):
        # Only Linux kills a child with its parent; elsewhere a small guard process does.
        program = str(Path(guard.__file__))
        argv = [sys.executable, "-S", "-I", program, str(os.getpid()), str(int(plan.stop_signal))]
        argv += [str(-1 if user is None else user), plan.cwd, str(plan.scratch or ""), "--", *plan.argv]
        user = None
    return Child(
        name=name,
        argv=argv,
        env=dict(plan.env),
        whole_env=True,
        cwd=plan.cwd,
        user=user,
        scratch=plan.scratch,
        stop_signal=plan.stop_signal,
        orphan_signal=signal.SIGQUIT if name == "postgres" else signal.SIGKILL,
        stop_seconds=stop_seconds,
        ready=ready,
    )
