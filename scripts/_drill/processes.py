"""Drills that kill daemons."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from scripts._drill.drill import Drill, DrillHeld, all_taken, bet_taken, reads_served, require
from scripts._drill.fleet import Fleet, children
from scripts._drill.load import Load
from scripts._drill.witness import at_door, mined, observations

TAKEOVER_SECONDS = 30.0


async def kill_indexer(fleet: Fleet, load: Load) -> DrillHeld:
    name = await fleet.leader("indexer")
    fleet.kill(name)
    took = max(await asyncio.gather(*(fleet.indexed(chain, TAKEOVER_SECONDS, ahead=3) for chain in fleet.urls)))
    bet = await bet_taken(fleet, load, TAKEOVER_SECONDS)
    await fleet.until_ready(name)
    return DrillHeld(
        f"{name} was killed; the index was at both heads again after {took:.1f} s, a bet on its owner's page "
        f"{bet:.1f} s later",
        took,
    )


async def kill_keeper(fleet: Fleet, load: Load) -> DrillHeld:
    """What was asked for before the blow may be mined after it; what was observed afterwards is another keeper's."""
    name = await fleet.leader("keeper")
    fleet.kill(name)
    killed_at = await fleet.now("base")

    async def posted() -> bool:
        return max((await observations(fleet)).values()) > killed_at

    took = await fleet.until(posted, "an observation of after the blow on the chain", TAKEOVER_SECONDS)
    await fleet.until_ready(name)
    return DrillHeld(
        f"{name} was killed while leading; another one's observation was on the chain after {took:.1f} s", took
    )


async def kill_relayer(fleet: Fleet, load: Load) -> DrillHeld:
    """All of them at once, while bets are on their way: the next ones take the lanes."""
    names = fleet.instances("relayer")
    waiting = [asyncio.create_task(load.stock()) for _ in range(3)]
    load.adopt(waiting)
    halfway: list[int] = []

    async def on_their_way() -> bool:
        halfway[:] = [intent for (intent,) in await fleet.ask_database(_IN_FLIGHT)]
        return bool(halfway)

    await fleet.until(on_their_way, "a transaction on its way", 30, pause=0.01)
    for name in names:
        fleet.kill(name)
    took = await bet_taken(fleet, load, 60)
    took += await fleet.until(lambda: _landed(fleet, halfway), "what was on its way on the chain", 60)
    took += await all_taken(fleet, waiting, "the bets of that moment told and on the chain", 60)
    await fleet.until_ready(*names)
    return DrillHeld(
        f"{len(names)} relayers were killed with {len(halfway)} transactions on their way; those and a new bet were on "
        f"the chain after {took:.1f} s",
        took,
    )


_IN_FLIGHT = "SELECT id FROM outbox_intent WHERE chain_id = 4663 AND kind = 'enter' AND state IN ('signed', 'sent')"


async def _landed(fleet: Fleet, intents: list[int]) -> bool:
    """Whether the outbox knows a transaction for each of them and the chain has it."""
    rows = await fleet.ask_database(
        "SELECT encode(tx_hash, 'hex') FROM outbox_intent WHERE id = ANY(%s) AND outcome = 'succeeded'", intents
    )
    return len(rows) == len(intents) and await mined(fleet, "stock", [f"0x{tx}" for (tx,) in rows])


async def kill_api(fleet: Fleet, load: Load) -> DrillHeld:
    name = "api-0"
    fleet.kill(name)
    if fleet.size.api > 1:
        require(await reads_served(load) == 200, "the other API processes did not answer")
    took = await fleet.until_ready(name)
    door = fleet.base_urls[0]
    bet = await bet_taken(fleet, load, 60, door=door)
    since = time.time()

    async def follows() -> bool:
        status, listed = await at_door(load, f"{door}/api/markets")
        return status == 200 and not listed["stale"] and bool(listed["readAt"] > since)

    bet += await fleet.until(follows, f"a market list of {name} that was read after that bet", 60)
    return DrillHeld(
        f"{name} was killed; it was back after {took:.1f} s, and itself showed a bet {bet:.1f} s later", took
    )


async def kill_worker(fleet: Fleet, load: Load) -> DrillHeld:
    """An API process of two workers on one port; its parent starts the one that died again."""
    name, door = f"api-{fleet.size.api - 1}", fleet.base_urls[-1]
    fleet.arguments[name] = ("--workers", "2")
    fleet.keep_down(name)
    fleet.start(name)
    try:
        await fleet.until_ready(name)
        await fleet.until(lambda: len(_workers(fleet, name)) == 2, "two workers", 30)
        before = _workers(fleet, name)
        os.kill(before[0], signal.SIGKILL)
        took = await fleet.until(lambda: _replaced(fleet, name, before), "the worker started again", 30)
        restarts = await fleet.metric(name, "vpm_api_worker_restarts_total")
        require(sum(restarts.values()) >= 1, "the metrics do not tell of the restart")
        # The other one dies, too, so that whoever answers next is the one that was started again.
        os.kill(before[1], signal.SIGKILL)
        again = await fleet.until(lambda: _answers(load, door), "an answer of the worker started again", 30)
        bet = await bet_taken(fleet, load, 60, door=door)
    finally:
        fleet.arguments.pop(name)
        fleet.keep_down(name)
        fleet.start(name)
    await fleet.until_ready(name)
    return DrillHeld(
        f"a worker of {name} was killed and replaced within {took:.1f} s; the new one answered alone {again:.1f} s "
        f"after the other was gone, and showed a bet {bet:.1f} s later",
        took + again + bet,
    )


async def _answers(load: Load, door: str) -> bool:
    return (await at_door(load, f"{door}/api/markets"))[0] == 200


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
        "a bet made after the blow is on the chain and on its owner's public page",
        "nobody-leads",
        kill_indexer,
    ),
    Drill(
        "kill-keeper",
        "SIGKILL to the keeper that leads",
        "another keeper runs the jobs within 30 s, and nothing is done twice",
        "a feed on the chain has an observation of after the blow",
        "nobody-leads",
        kill_keeper,
    ),
    Drill(
        "kill-relayer",
        "SIGKILL to every relayer with bets on their way",
        "each bet is sent once; a new one is confirmed within 60 s",
        "what was on its way at the blow is on the chain, the bets of that moment once each, and the outbox says so",
        "bets-are-not-relayed",
        kill_relayer,
    ),
    Drill(
        "kill-api",
        "SIGKILL to an API process",
        "the others answer; it is back within 90 s and takes bets",
        "a new bet is on the chain and shown by the process that was killed, whose market list was read after it",
        "a-daemon-is-down",
        kill_api,
    ),
    Drill(
        "kill-worker",
        "SIGKILL to one of an API process's workers",
        "its parent starts another within 30 s, and the metrics tell; the rest answer meanwhile",
        "the worker that was started again answers the public by itself and shows a new bet",
        "a-daemon-is-down",
        kill_worker,
    ),
)
