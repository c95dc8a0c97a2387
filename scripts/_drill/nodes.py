"""Drills on the nodes and the chains themselves: silence, garbage, reorganizations."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import dataclass

from scripts._drill.drill import Drill, DrillHeld, all_taken, bet_taken, reads_served, require
from scripts._drill.fleet import Fleet, ran
from scripts._drill.load import Load, LoadReport, Promise
from scripts._drill.proxy import Mood
from scripts._drill.witness import is_public
from scripts._stack.chains import CHAIN_IDS

AWAY_SECONDS = 12.0
SHALLOW = 4
DEEP = 80  # anvil calls final what is 64 blocks deep
SPARE = 8  # blocks that may come between a look at what is final and the reorganization
RESENDS, BUMPS = "vpm_relayer_resends_total", "vpm_relayer_bumps_total"
SHORT_ANSWERS = "vpm_index_short_answers_total"
LIVE_KINDS = {"base": "op-stack", "stock": "arbitrum-orbit"}


async def drop_rpc(fleet: Fleet, load: Load) -> DrillHeld:
    fleet.mood(Mood.GONE)
    await asyncio.sleep(AWAY_SECONDS)
    status, body = await load.call("GET", "/api/markets")
    fleet.mood(Mood.FAITHFUL)
    require(status == 200, f"the market list answered {status} without a node")
    require(bool(body["stale"]), "the market list did not say that it is stale")
    took = max(await asyncio.gather(*(fleet.indexed(chain) for chain in CHAIN_IDS)))
    bet = await bet_taken(fleet, load, 60)
    await fleet.until(lambda: _is_fresh(load), "a market list that is not stale", 60)
    return DrillHeld(
        f"no node for {AWAY_SECONDS:.0f} s: reads were served and said stale; the index was at both heads {took:.1f} s "
        f"after, a bet confirmed {bet:.1f} s after that",
        took + bet,
    )


async def _is_fresh(load: Load) -> bool:
    status, body = await load.call("GET", "/api/markets")
    return status == 200 and body["stale"] is False


async def hang_rpc(fleet: Fleet, load: Load) -> DrillHeld:
    fleet.mood(Mood.SILENT)
    await asyncio.sleep(AWAY_SECONDS)
    served = await reads_served(load)
    fleet.mood(Mood.FAITHFUL)
    took = await bet_taken(fleet, load, 90)
    require(served == 200, f"the market list answered {served} while the nodes hung")
    return DrillHeld(f"nodes that never answer for {AWAY_SECONDS:.0f} s: reads went on; a bet after {took:.1f} s", took)


async def corrupt_rpc(fleet: Fleet, load: Load) -> DrillHeld:
    before = await _undone(fleet)
    fleet.mood(Mood.GARBAGE)
    await asyncio.sleep(AWAY_SECONDS)
    short = await _counted(fleet, "indexer", SHORT_ANSWERS)
    fleet.mood(Mood.FORGETFUL)
    bets = [asyncio.create_task(load.stock()) for _ in range(2)]
    load.adopt(bets)
    await fleet.until(lambda: _more(fleet, "indexer", SHORT_ANSWERS, short), "the left-out logs noticed", 90)
    fleet.mood(Mood.FAITHFUL)
    spoiled = sum(proxy.misled for proxy in fleet.proxies.values())
    took = max(await asyncio.gather(*(fleet.indexed(chain) for chain in CHAIN_IDS)))
    bet = await bet_taken(fleet, load, 60)
    bet += await all_taken(fleet, bets, "the bets of the forgetful moment told and on the chain", 60)
    made = [one for task in bets if (one := task.result()) is not None]

    async def are_public() -> bool:
        return all([await is_public(fleet, load, one) for one in made])

    await fleet.until(are_public, "the bets whose logs were left out on their owners' pages", 60)
    undone = await _undone(fleet) - before
    require(undone == 0, f"{undone} reorganizations were believed that never were")
    return DrillHeld(
        f"{spoiled} spoiled answers: none was believed; at both heads after {took:.1f} s, with {len(made)} bets whose "
        "logs had been left out",
        took + bet,
    )


async def _undone(fleet: Fleet) -> int:
    return int((await fleet.ask_database("SELECT count(*) FROM chain_reorg"))[0][0])


async def reorg(fleet: Fleet, load: Load) -> DrillHeld:
    """The last blocks of both chains are replaced by empty ones: bets in them have to be sent again. Afterwards every
    transaction that stood in a replaced block stands in another, and the outbox says in which."""
    before = await _undone(fleet)
    bets: list[Promise | None] = []
    young: dict[str, list[MinedIntent]] = {}

    async def are_young() -> bool:
        bets[:] = await asyncio.gather(load.stock(), load.agent())
        # An index that has not come to the last blocks yet has nothing to undo in them.
        await asyncio.gather(*(fleet.indexed(chain) for chain in CHAIN_IDS))
        young.update({chain: await _young(fleet, chain) for chain in CHAIN_IDS})
        return any(young.values())

    await fleet.until(are_young, "a transaction of ours in one of the last blocks", 60)
    # On a busy machine blocks come between the last look and here, and an index may stand below those replaced.
    stood = {chain: await fleet.index_stands(chain) for chain in CHAIN_IDS}
    for chain in CHAIN_IDS:
        await fleet.rpc(chain, "anvil_reorg", SHALLOW, [])
    gone = [each for chain, some in young.items() for each in some if await _replaced(fleet, chain, *each.place)]
    require(bool(gone), "no transaction of ours stood in a replaced block: there was nothing to undo")
    undone = [chain for chain, place in stood.items() if await _replaced(fleet, chain, *place)]
    require(bool(undone), "no index stood in a replaced block: there was nothing to undo")

    async def are_noticed() -> bool:
        return await _undone(fleet) - before >= len(undone)

    # The new blocks may be as many as the old: at the height of the head an index may stand on the old ones still.
    took = await fleet.until(are_noticed, f"{len(undone)} reorganizations noticed", 60)
    took += max(await asyncio.gather(*(fleet.indexed(chain) for chain in CHAIN_IDS)))
    again = await fleet.until(lambda: _stand_anew(fleet, gone), "every undone transaction in another block", 60)
    again += await fleet.until(lambda: not _sent(fleet), "every transaction mined again", 60)
    taken = sum(one is not None and one.report is LoadReport.TAKEN for one in bets)
    return DrillHeld(
        f"{SHALLOW} blocks of both chains were replaced; undone after {took:.1f} s, {len(gone)} transactions "
        f"({taken} of them fresh bets) stood in other blocks after {again:.1f} s",
        took + again,
    )


@dataclass(frozen=True, slots=True)
class MinedIntent:
    """An intent's transaction and the block it was in."""

    chain: str
    intent: int
    block: int
    block_hash: str

    @property
    def place(self) -> tuple[int, str]:
        return self.block, self.block_hash


async def _young(fleet: Fleet, chain: str) -> list[MinedIntent]:
    """What of ours is in the last blocks, and still will be when another has come."""
    head = int((await fleet.head(chain))["number"], 16)
    rows = await fleet.ask_database(
        "SELECT id, block_number, encode(block_hash, 'hex') FROM outbox_intent WHERE chain_id = %s"
        " AND outcome = 'succeeded' AND block_number > %s",
        CHAIN_IDS[chain],
        head - SHALLOW + 1,
    )
    return [MinedIntent(chain, intent, block, "0x" + digest) for intent, block, digest in rows]


async def _replaced(fleet: Fleet, chain: str, block: int, block_hash: str) -> bool:
    standing = await fleet.rpc(chain, "eth_getBlockByNumber", hex(block), False)
    return standing is None or standing["hash"] != block_hash


async def _stand_anew(fleet: Fleet, gone: list[MinedIntent]) -> bool:
    """Whether each is in a block that stands, and the outbox names that very block."""
    for placed in gone:
        ((tx, block, digest),) = await fleet.ask_database(
            "SELECT encode(tx_hash, 'hex'), block_number, encode(block_hash, 'hex') FROM outbox_intent WHERE id = %s",
            placed.intent,
        )
        receipt = await fleet.rpc(placed.chain, "eth_getTransactionReceipt", "0x" + tx)
        if block is None or receipt is None or receipt["blockHash"] != "0x" + digest:
            return False
        standing = await fleet.rpc(placed.chain, "eth_getBlockByNumber", hex(block), False)
        if standing is None or standing["hash"] != "0x" + digest or standing["hash"] == placed.block_hash:
            return False
    return True


def _sent(fleet: Fleet) -> int:
    """In flight and not of this very moment."""
    rows = fleet.rows(
        "SELECT count(*) FROM outbox_intent WHERE state IN ('signed', 'sent') AND created_at < now() - interval '6 s'"
    )
    return int(rows[0][0])


async def stand_still(fleet: Fleet, load: Load) -> DrillHeld:
    """No block; a node that forgets what it was sent; then blocks again, at a base fee above all that was offered."""
    resent = await _counted(fleet, "relayer", RESENDS)
    await fleet.rpc("stock", "evm_setIntervalMining", 0)
    try:
        forgotten = [asyncio.create_task(load.stock()) for _ in range(3)]
        load.adopt(forgotten)
        await fleet.until(lambda: _any_pooled(fleet), "transactions in the pool", 60)
        await fleet.rpc("stock", "anvil_dropAllTransactions")
        again = await fleet.until(lambda: _more(fleet, "relayer", RESENDS, resent), "them offered again", 60)
        offered, raised = await _pooled(fleet), await _counted(fleet, "relayer", BUMPS)
        require(offered > 0, "the node has none of what was offered again")
    finally:
        await fleet.rpc("stock", "evm_setIntervalMining", 1)

    async def dear() -> bool:
        # A block that is not full lowers the fee by an eighth, so it is set for each anew.
        await fleet.rpc("stock", "anvil_setNextBlockBaseFeePerGas", hex(offered * 3 // 2))
        return await _more(fleet, "relayer", BUMPS, raised)

    higher = await fleet.until(dear, "the fees raised", 90)
    took = await bet_taken(fleet, load, 90)
    took += await all_taken(fleet, forgotten, "the bets that the node forgot told and on the chain", 90)
    return DrillHeld(
        f"offered again after {again:.1f} s to a node that had forgotten them; the base fee rose above the {offered:,} "
        f"wei a gas it then paid, and was met after {higher:.1f} s; a new bet and the forgotten ones were on the chain "
        f"{took:.1f} s after it fell",
        took,
    )


async def _counted(fleet: Fleet, daemon: str, what: str) -> float:
    """A metric of the stock chain, over all instances of a daemon."""
    return sum(value for labels, value in await fleet.samples(daemon, what) if ("chain", "stock") in labels)


async def _more(fleet: Fleet, daemon: str, what: str, than: float) -> bool:
    return await _counted(fleet, daemon, what) > than


async def _pooled(fleet: Fleet) -> int:
    """The highest fee offered by a transaction in the node's pool, in wei per gas; 0 without any."""
    pool = (await fleet.rpc("stock", "txpool_content"))["pending"]
    fees = [int(each["maxFeePerGas"], 16) for sender in pool.values() for each in sender.values()]
    return max(fees, default=0)


async def _any_pooled(fleet: Fleet) -> bool:
    return await _pooled(fleet) > 0


async def deep_reorg(fleet: Fleet, load: Load) -> DrillHeld:
    """A live network's rules: beyond finality nothing is undone by itself; a person has to say so."""
    names = fleet.instances("indexer")
    strict, ordinary = fleet.folder / "strict", {name: fleet.extra.get(name, {}) for name in names}
    shutil.rmtree(strict, ignore_errors=True)
    strict.mkdir()
    for chain, kind in LIVE_KINDS.items():
        facts = json.loads(fleet.genesis.deployment(chain).read_text())
        (strict / f"{chain}.json").write_text(json.dumps({**facts, "kind": kind}))
    for name in names:
        fleet.extra[name] = {**ordinary[name], "VPM_DEPLOYMENTS_DIR": str(strict)}
        fleet.keep_down(name)
        fleet.start(name)
    await fleet.until_ready(*names)
    await fleet.indexed("stock")
    await fleet.rpc("stock", "anvil_mine", hex(DEEP + 10), hex(1))
    await fleet.indexed("stock")
    # What is final is asked for every few seconds only: until then the index cannot know that this is too deep.
    await fleet.until(lambda: _too_much_is_final(fleet), "the index knowing what is final", 60)
    try:
        # What a chain takes back beyond finality nobody can keep: those promises end here. All before it still stand.
        kept_to = int((await fleet.head("stock"))["number"], 16) - DEEP
        load.promises = [one for one in load.promises if one.surface != "stock" or _stands(one, kept_to)]
        await fleet.rpc("stock", "anvil_reorg", DEEP, [])
        await fleet.until(lambda: _state(fleet) == "halted", "the index halted", 60)
        await fleet.until(lambda: _more(fleet, "indexer", "vpm_index_halted", 0), "the metrics telling of it", 10)
        served = await reads_served(load)
        # What the runbook says: after making sure of the fork, stop the indexers and read the chain again.
        for name in names:
            fleet.keep_down(name)
        command = ("scripts._status.reindex", "stock", "--yes")
        done = await asyncio.to_thread(ran, *command, env=fleet.environment("indexer-0"))
        require(done.returncode == 0, f"vpm reindex: {done.stderr.strip()}")
        for name in names:
            fleet.start(name)
        took = await fleet.until(lambda: _state(fleet) == "tail", "the index follows again", 90)
        took += await fleet.indexed("stock")
    finally:
        for name in names:
            fleet.extra[name] = ordinary[name]
            fleet.keep_down(name)
            fleet.start(name)
        await fleet.until_ready(*names)
    require(served == 200, f"the market list answered {served} while the index was halted")
    took += await fleet.until(
        lambda: _lists_what_is(fleet, load), "the markets of the new chain on the public list", 60
    )
    return DrillHeld(
        f"{DEEP} blocks were replaced: halted, served stale, followed {took:.1f} s after it was read again", took
    )


async def _lists_what_is(fleet: Fleet, load: Load) -> bool:
    """Whether the public list has the markets that the contract has now, and none that went with the old blocks."""
    status, listed = await load.call("GET", "/api/markets")
    count = await fleet.read("stock", fleet.contract("stock", "VestedMarkets").call("marketCount"))
    return status == 200 and not listed["stale"] and max(int(each["id"]) for each in listed["markets"]) == count


def _stands(bet: Promise, block: int) -> bool:
    """Whether a bet is in a block up to this one, or was refused for good."""
    if bet.report is LoadReport.TAKEN and isinstance(bet.answer, dict):
        return 0 < int(bet.answer.get("blockNumber") or 0) <= block
    return bet.report is LoadReport.REFUSED


def _too_much_is_final(fleet: Fleet) -> bool:
    """Whether the index knows a block as final that the deep reorganization undoes, with some to spare."""
    query = "SELECT number - finalized_number FROM chain_cursor WHERE chain_id = %s"
    ((depth,),) = fleet.rows(query, CHAIN_IDS["stock"])
    return depth is not None and depth < DEEP - SPARE


def _state(fleet: Fleet) -> str:
    rows = fleet.rows("SELECT state FROM chain_cursor WHERE chain_id = %s", CHAIN_IDS["stock"])
    return str(rows[0][0]) if rows else "not read yet"


DRILLS = (
    Drill(
        "drop-rpc",
        f"no node of either chain answers for {AWAY_SECONDS:.0f} s",
        "reads go on and say stale; both chains are followed and bets confirmed within 60 s of their return",
        "the public list, which said that it was stale, no longer does; a new bet is on the chain and on its page",
        "no-node-answers",
        drop_rpc,
    ),
    Drill(
        "hang-rpc",
        f"nodes take requests and never answer for {AWAY_SECONDS:.0f} s",
        "reads go on; a bet is confirmed within 90 s of their return",
        "a new bet is on the chain and on its owner's public page",
        "no-node-answers",
        hang_rpc,
    ),
    Drill(
        "corrupt-rpc",
        f"nodes answer pages, cut JSON and wrong shapes for {AWAY_SECONDS:.0f} s, then leave logs out of right answers",
        "nothing of it is believed: no log is dropped or invented, and both chains are followed afterwards",
        "bets whose logs were left out are on the chain once and on their owners' public pages",
        "the-index-lags",
        corrupt_rpc,
    ),
    Drill(
        "reorg",
        f"the last {SHALLOW} blocks of both chains are replaced by empty ones",
        "tables follow the new chain, and every bet that was taken is mined again",
        "each transaction of ours that stood in a replaced block stands in another, and the outbox names that one",
        "reorganizations",
        reorg,
    ),
    Drill(
        "stand-still",
        "the stock chain makes no block, its node forgets the pool, and then the base fee jumps",
        "what was sent is offered again and then at higher fees; a bet is confirmed within 90 s after that",
        "the bets that the node forgot are on the chain, once each",
        "transactions-stand-still",
        stand_still,
    ),
)

DEEP_REORG = Drill(
    "deep-reorg",
    f"{DEEP} blocks of the stock chain are replaced, beyond finality, under a live network's rules",
    "the index halts and serves what it has, and follows once an operator has the chain read again",
    "the public list has the markets of the new chain, and none that went with the replaced blocks",
    "the-index-is-halted",
    deep_reorg,
)
