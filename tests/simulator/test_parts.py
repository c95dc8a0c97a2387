"""The parts of the simulator: virtual time, processes that die between two awaits, connections between them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.paths import REPOSITORY
from tests.simulator.clock import REAL_MONOTONIC, VirtualClock
from tests.simulator.loop import Process, VirtualLoop, inside
from tests.simulator.network import Network
from tests.simulator.weather import Weather


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[VirtualLoop]:
    made = VirtualLoop(VirtualClock(1_900_000_000, tmp_path / "clock"))
    yield made
    made.close()


def test_most_of_an_hour_passes_at_once(loop: VirtualLoop) -> None:
    began = REAL_MONOTONIC()
    loop.run_until_complete(asyncio.sleep(3500))
    assert loop.clock.elapsed == pytest.approx(3500, abs=0.01)
    assert REAL_MONOTONIC() - began < 5


def test_who_waits_for_less_than_the_clock_shows_does_not_wait_for_ever(loop: VirtualLoop) -> None:
    async def wait() -> None:
        until = loop.time() + 1e-12
        while loop.time() < until:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), until - loop.time())

    began = loop.clock.elapsed_us
    loop.run_until_complete(wait())
    assert loop.clock.elapsed_us == began + 1


_CLOCKS = """
import time
from dataclasses import dataclass, field
from pathlib import Path
from tests.simulator.clock import VirtualClock, install

def default(clock=time.time): return clock()
def keyword(*, clock=time.monotonic): return clock()

@dataclass
class Made:
    at: float = field(default_factory=time.monotonic)

clock = VirtualClock(1_900_000_000, Path("{path}"))
install(clock)
clock.advance(5)
assert default() == time.time() == clock.now, default()
assert keyword() == time.monotonic() == clock.monotonic, keyword()
assert Made().at == clock.monotonic, Made()
assert time.clock_gettime(time.CLOCK_MONOTONIC) == clock.monotonic
"""


def test_a_clock_that_is_a_default_is_virtual_too(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _CLOCKS.format(path=tmp_path / "clock")], check=True, cwd=REPOSITORY)


def test_whoever_waits_for_ever_is_a_fault(loop: VirtualLoop) -> None:
    with pytest.raises(RuntimeError, match="everybody waits for ever"):
        loop.run_until_complete(loop.create_future())


def test_a_world_that_never_ends_is_a_fault(loop: VirtualLoop) -> None:
    async def wait() -> None:
        while True:
            await asyncio.sleep(10)

    with pytest.raises(RuntimeError, match="it is not over after"):
        loop.run_until_complete(wait())


@pytest.mark.parametrize("step", range(1, 12))
def test_a_killed_process_cleans_nothing_up(loop: VirtualLoop, step: int) -> None:
    """At whichever step it dies: what it did before is done, no `finally` runs, and others go on."""
    done: list[int] = []
    victim = Process("victim", kill_at=step)

    async def work() -> None:
        try:
            for number in range(100):
                done.append(number)
                await asyncio.sleep(0.1)
        finally:
            done.append(-1)

    async def world() -> None:
        with inside(victim):
            asyncio.create_task(work())  # noqa: RUF006 - kept by its process
        await asyncio.sleep(60)

    loop.run_until_complete(world())
    assert victim.dead
    seen = list(done)
    _bury(victim)
    assert seen == list(range(len(seen)))
    assert len(seen) < 12
    assert not seen or done[-1] == -1, "a cleanup that would have run was there to be left out"


def _bury(process: Process) -> None:
    """Ends what it left behind, after all is judged: this process goes on to other tests."""
    for task in process.tasks:
        work: Any = task.get_coro()
        work.close()
        vars_of: Any = task
        vars_of._log_destroy_pending = False


def test_the_same_seed_takes_the_same_steps(tmp_path: Path) -> None:
    def digest(seed: int) -> str:
        loop = VirtualLoop(VirtualClock(1_900_000_000, tmp_path / "clock"))
        dice = random.Random(seed)

        async def walk() -> None:
            for _ in range(50):
                await asyncio.sleep(dice.expovariate(1.0))

        async def world() -> None:
            with inside(Process("walker")):
                walks = [asyncio.create_task(walk()) for _ in range(3)]
            await asyncio.gather(*walks)

        loop.run_until_complete(world())
        loop.write_trace()
        loop.close()
        return loop.trace.hexdigest()

    assert digest(1) == digest(1) != digest(2)


class _Ear(asyncio.Protocol):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.heard.append(error)


def test_the_peer_of_the_dead_learns_of_it_after_what_was_sent(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiohttp.connector.TCPConnector._wrap_create_connection", None)
    network, server, client = Network(loop, random.Random(1)), Process("server"), Process("client")
    far, near = _Ear(), _Ear()

    async def world() -> None:
        with inside(server):
            await network.loop.create_server(lambda: far, "127.0.0.1", 80)
        with inside(client):
            transport, _ = network.connected(lambda: near, network.servers["127.0.0.1", 80])
        transport.write(b"one")
        transport.write(b"two")
        client.kill()
        await asyncio.sleep(1)

    loop.run_until_complete(world())
    assert far.heard[:2] == [b"one", b"two"]
    assert isinstance(far.heard[2], ConnectionResetError)
    assert near.heard == []


def test_what_is_said_of_the_weather_takes_the_place_of_what_is_drawn() -> None:
    drawn = Weather.of(random.Random(7))
    assert drawn.but("") == drawn
    said = drawn.but("kill_every=,fork_rate=0.3,pace=1,spare=keeper-1,block_seconds=12")
    assert (said.kill_every, said.fork_rate, said.pace, said.spare, said.block_seconds) == (
        None,
        0.3,
        1,
        "keeper-1",
        12,
    )
    assert (said.roughness, said.break_rate) == (drawn.roughness, drawn.break_rate)
    with pytest.raises(ValueError, match="rain is nothing of a weather's"):
        drawn.but("rain=1")
    with pytest.raises(ValueError, match="could not convert"):
        drawn.but("fork_rate=")  # none of it is 0
