"""Drills that kill daemons."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from scripts._drill.drill import Drill, Held, bet_taken, reads_served, require
from scripts._drill.fleet import Fleet, children
from scripts._drill.load import Load

TAKEOVER_SECONDS = 30.0


async def kill_indexer(fleet: Fleet, load: Load) -> Held:
    name = await fleet.leader("indexer")
    fleet.kill(name)
    took = max(await asyncio.gather(*(fleet.indexed(chain, TAKEOVER_SECONDS, ahead=3) for chain in fleet.urls)))
    await fleet.until_ready(name)
    return Held(f"{name} was killed; the index was at both heads again after {took:.1f} s", took)


async def kill_keeper(fleet: Fleet, load: Load) -> Held:
    name = await fleet.leader("keeper")
    fleet.kill(name)
    (killed_at,) = (await fleet.ask_database("SELECT now()"))[0]

    async def ran() -> bool:
        rows = await fleet.ask_database("SELECT count(*) FROM keeper_run WHERE started_at > %s AND ok", killed_at)
        return bool(rows[0][0] >= 3)

    took = await fleet.until(ran, "three jobs run by another keeper", TAKEOVER_SECONDS)
    await fleet.until_ready(name)
    return Held(f"{name} was killed while leading; jobs ran again after {took:.1f} s", took)


async def kill_relayer(fleet: Fleet, load: Load) -> Held:
    """All of them at once, while bets are on their way: the next ones take the lanes."""
    names = [name for name in fleet.running if name.startswith("relayer")]
    waiting = [asyncio.create_task(load.stock()) for _ in range(3)]
    await asyncio.sleep(0.3)
    began = time.monotonic()
    for name in names:
        fleet.kill(name)
    took = await bet_taken(fleet, load, 60)
    await asyncio.gather(*waiting)
    await fleet.until_ready(*names)
    held = f"{len(names)} relayers were killed with bets on their way; a new bet was confirmed after {took:.1f} s"
    return Held(held, time.monotonic() - began if took == 0 else took)


async def kill_api(fleet: Fleet, load: Load) -> Held:
    name = "api-0"
    fleet.kill(name)
    if fleet.size.api > 1:
        require(await reads_served(load) == 200, "the other API processes did not answer")
    took = await fleet.until_ready(name)
    bet = await bet_taken(fleet, load, 60)
    return Held(f"{name} was killed; it was back after {took:.1f} s, and a bet was confirmed {bet:.1f} s later", took)


async def kill_worker(fleet: Fleet, load: Load) -> Held:
    """An API process of two workers on one port; its parent starts the one that died again."""
    name = f"api-{fleet.size.api - 1}"
    fleet.arguments[name] = ("--workers", "2")
    fleet.keep_down(name)
    fleet.start(name)
    try:
        await fleet.until_ready(name)
        await fleet.until(lambda: len(_workers(fleet, name)) == 2, "two workers", 30)
        before = _workers(fleet, name)
        os.kill(before[0], signal.SIGKILL)
        took = await fleet.until(lambda: _replaced(fleet, name, before), "the worker started again", 30)
        told = await fleet.metric(name, "vpm_api_worker_restarts_total")
        require(sum(told.values()) >= 1, "the metrics do not tell of the restart")
        bet = await bet_taken(fleet, load, 60)
    finally:
        fleet.arguments.pop(name)
        fleet.keep_down(name)
        fleet.start(name)
    await fleet.until_ready(name)
    return Held(f"a worker of {name} was killed and replaced within {took:.1f} s; a bet {bet:.1f} s later", took + bet)


def _workers(fleet: Fleet, name: str) -> list[int]:
    return children(fleet.pids()[name])


def _replaced(fleet: Fleet, name: str, before: list[int]) -> bool:
    now = _workers(fleet, name)
    return len(now) == 2 and before[0] not in now


DRILLS = (
    Drill(
        "kill-indexer",
        "SIGKILL to the indexer that leads",
        "a standby or its successor follows both chains again within 30 s, and no block is missed",
        "nobody-leads",
        kill_indexer,
    ),
    Drill(
        "kill-keeper",
        "SIGKILL to the keeper that leads",
        "another keeper runs the jobs within 30 s, and nothing is done twice",
        "nobody-leads",
        kill_keeper,
    ),
    Drill(
        "kill-relayer",
        "SIGKILL to every relayer with bets on their way",
        "each bet is sent once; a new one is confirmed within 60 s",
        "bets-are-not-relayed",
        kill_relayer,
    ),
    Drill(
        "kill-api",
        "SIGKILL to an API process",
        "the others answer; it is back within 90 s and takes bets",
        "a-daemon-is-down",
        kill_api,
    ),
    Drill(
        "kill-worker",
        "SIGKILL to one of an API process's workers",
        "its parent starts another within 30 s, and the metrics tell; the rest answer meanwhile",
        "a-daemon-is-down",
        kill_worker,
    ),
)
