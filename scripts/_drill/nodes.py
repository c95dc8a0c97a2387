"""Drills on the nodes and the chains themselves: silence, garbage, reorganizations."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys

from scripts._drill.drill import Drill, Held, bet_taken, reads_served, require
from scripts._drill.fleet import CHAIN_IDS, ROOT, Fleet
from scripts._drill.load import Load, Told
from scripts._drill.proxy import Mood

AWAY_SECONDS = 12.0
SHALLOW = 4
DEEP = 80  # anvil calls final what is 64 blocks deep
LIVE_KINDS = {"base": "op-stack", "vpm": "arbitrum-orbit"}


async def drop_rpc(fleet: Fleet, load: Load) -> Held:
    fleet.mood(Mood.GONE)
    await asyncio.sleep(AWAY_SECONDS)
    status, body = await load.call("GET", "/api/markets")
    fleet.mood(Mood.FAITHFUL)
    took = max(await asyncio.gather(*(fleet.indexed(chain) for chain in CHAIN_IDS)))
    bet = await bet_taken(fleet, load, 60)
    require(status == 200, f"the market list answered {status} without a node")
    require(bool(body["stale"]), "the market list did not say that it is stale")
    return Held(
        f"no node for {AWAY_SECONDS:.0f} s: reads were served and said stale; the index was at both heads {took:.1f} s "
        f"after, a bet confirmed {bet:.1f} s after that",
        took + bet,
    )


async def hang_rpc(fleet: Fleet, load: Load) -> Held:
    fleet.mood(Mood.SILENT)
    await asyncio.sleep(AWAY_SECONDS)
    served = await reads_served(load)
    fleet.mood(Mood.FAITHFUL)
    took = await bet_taken(fleet, load, 90)
    require(served == 200, f"the market list answered {served} while the nodes hung")
    return Held(f"nodes that never answer for {AWAY_SECONDS:.0f} s: reads went on; a bet after {took:.1f} s", took)


async def corrupt_rpc(fleet: Fleet, load: Load) -> Held:
    before = await _undone(fleet)
    fleet.mood(Mood.GARBAGE)
    await asyncio.sleep(AWAY_SECONDS)
    fleet.mood(Mood.FAITHFUL)
    spoiled = sum(proxy.misled for proxy in fleet.proxies.values())
    took = max(await asyncio.gather(*(fleet.indexed(chain) for chain in CHAIN_IDS)))
    bet = await bet_taken(fleet, load, 60)
    undone = await _undone(fleet) - before
    require(undone == 0, f"{undone} reorganizations were believed that never were")
    return Held(f"{spoiled} spoiled answers: none was believed; at both heads after {took:.1f} s", took + bet)


async def _undone(fleet: Fleet) -> int:
    return int((await fleet.ask_database("SELECT count(*) FROM chain_reorg"))[0][0])


async def reorg(fleet: Fleet, load: Load) -> Held:
    """The last blocks of both chains are replaced by empty ones: bets in them have to be sent again."""
    before = await _undone(fleet)
    bets = [await load.stock(), await load.agent()]
    for chain in CHAIN_IDS:
        await fleet.rpc(chain, "anvil_reorg", SHALLOW, [])
    took = max(await asyncio.gather(*(fleet.indexed(chain) for chain in CHAIN_IDS)))
    undone = await _undone(fleet) - before
    require(undone >= len(CHAIN_IDS), f"{undone} reorganizations were noticed, of {len(CHAIN_IDS)}")
    again = await fleet.until(lambda: not _sent(fleet), "every transaction mined again", 60)
    taken = sum(one is not None and one.told is Told.TAKEN for one in bets)
    return Held(
        f"{SHALLOW} blocks of both chains were replaced; undone after {took:.1f} s, {taken} fresh bets mined again "
        f"after {again:.1f} s",
        took + again,
    )


def _sent(fleet: Fleet) -> int:
    """In flight and not of this very moment."""
    rows = fleet.rows(
        "SELECT count(*) FROM outbox_intent WHERE state IN ('signed', 'sent') AND created_at < now() - interval '6 s'"
    )
    return int(rows[0][0])


async def deep_reorg(fleet: Fleet, load: Load) -> Held:
    """A live network's rules: beyond finality nothing is undone by itself; a person has to say so."""
    names = [name for name in fleet.running if name.startswith("indexer")]
    strict = fleet.folder / "strict"
    shutil.rmtree(strict, ignore_errors=True)
    strict.mkdir()
    for chain, kind in LIVE_KINDS.items():
        facts = json.loads(fleet.genesis.deployment(chain).read_text())
        (strict / f"{chain}.json").write_text(json.dumps({**facts, "kind": kind}))
    for name in names:
        fleet.extra[name] = {"VPM_DEPLOYMENTS_DIR": str(strict)}
        fleet.keep_down(name)
        fleet.start(name)
    await fleet.until_ready(*names)
    await fleet.indexed("vpm")
    await fleet.rpc("vpm", "anvil_mine", hex(DEEP + 10), hex(1))
    await fleet.indexed("vpm")
    await fleet.until(lambda: _final(fleet), "the index told which blocks are final", 60)
    try:
        # What a chain takes back beyond finality nobody can keep: these promises end here.
        load.promises = [one for one in load.promises if one.surface != "stock"]
        await fleet.rpc("vpm", "anvil_reorg", DEEP, [])
        await fleet.until(lambda: _state(fleet) == "halted", "the index halted", 60)
        served = await reads_served(load)
        # What the runbook says: after making sure of the fork, stop the indexers and read the chain again.
        for name in names:
            fleet.keep_down(name)
        done = await asyncio.to_thread(_reindex, fleet)
        require(done.returncode == 0, f"vpm reindex: {done.stderr.strip()}")
        for name in names:
            fleet.start(name)
        took = await fleet.until(lambda: _state(fleet) == "tail", "the index follows again", 90)
        took += await fleet.indexed("vpm")
    finally:
        for name in names:
            fleet.extra.pop(name, None)
            fleet.keep_down(name)
            fleet.start(name)
        await fleet.until_ready(*names)
    require(served == 200, f"the market list answered {served} while the index was halted")
    return Held(
        f"{DEEP} blocks were replaced: halted, served stale, followed {took:.1f} s after it was read again", took
    )


def _final(fleet: Fleet) -> bool:
    """Whether the index knows that some of what will be replaced counts as final."""
    query = "SELECT 1 FROM chain_cursor WHERE chain_id = %s AND finalized_number > number - %s"
    return bool(fleet.rows(query, CHAIN_IDS["vpm"], DEEP - 10))


def _state(fleet: Fleet) -> str:
    rows = fleet.rows("SELECT state FROM chain_cursor WHERE chain_id = %s", CHAIN_IDS["vpm"])
    return str(rows[0][0]) if rows else "not read yet"


def _reindex(fleet: Fleet) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scripts._status.reindex", "vpm", "--yes"],
        env=fleet.environment("indexer-0"),
        cwd=str(ROOT),
        capture_output=True,
        text=True,
        check=False,
    )


DRILLS = (
    Drill(
        "drop-rpc",
        f"no node of either chain answers for {AWAY_SECONDS:.0f} s",
        "reads go on and say stale; both chains are followed and bets confirmed within 60 s of their return",
        "no-node-answers",
        drop_rpc,
    ),
    Drill(
        "hang-rpc",
        f"nodes take requests and never answer for {AWAY_SECONDS:.0f} s",
        "reads go on; a bet is confirmed within 90 s of their return",
        "no-node-answers",
        hang_rpc,
    ),
    Drill(
        "corrupt-rpc",
        f"nodes answer pages, cut JSON, wrong shapes and left-out logs for {AWAY_SECONDS:.0f} s",
        "nothing of it is believed: no log is dropped or invented, and both chains are followed afterwards",
        "the-index-lags",
        corrupt_rpc,
    ),
    Drill(
        "reorg",
        f"the last {SHALLOW} blocks of both chains are replaced by empty ones",
        "tables follow the new chain, and every bet that was taken is mined again",
        "reorganizations",
        reorg,
    ),
)

DEEP_REORG = Drill(
    "deep-reorg",
    f"{DEEP} blocks of the stock chain are replaced, beyond finality, under a live network's rules",
    "the index halts and serves what it has, and follows once an operator has the chain read again",
    "the-index-is-halted",
    deep_reorg,
)
