"""What two stacks of one checkout must never share: a port, and a run of ape."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from core.paths import REPOSITORY
from scripts._local.ports import free_port
from scripts._stack import ape


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ports are claimed on Linux only")
def test_a_port_another_stack_was_given_is_not_given_again_before_it_listens() -> None:
    holder = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            "from scripts._local.ports import free_port; print(free_port(), flush=True); input()",
        ],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        wanted = int(holder.stdout.readline())
        assert free_port(wanted) != wanted
    finally:
        holder.communicate("\n", timeout=10)
    assert free_port(wanted) == wanted


def test_ape_runs_alone() -> None:
    order: list[str] = []

    async def run(name: str) -> None:
        async with ape.ape_lock():
            order.append(f"{name} begins")
            await asyncio.sleep(0.05)
            order.append(f"{name} ends")

    async def both() -> None:
        await asyncio.gather(run("one"), run("other"))

    asyncio.run(both())
    assert [step.split()[1] for step in order] == ["begins", "ends", "begins", "ends"]
