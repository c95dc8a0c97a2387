"""The whole stock service in a test: brought to its end, and what must then hold, to the unit."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from core.chain import ChainClient
from core.chain.provider import ChainProvider
from core.contracts.events import Layout
from core.contracts.events.stock import SETTLER_EVENTS, Delivered, Entered
from core.contracts.events.token import TOKEN_EVENTS, AuthorizationUsed
from core.db.engine import make_pool
from core.direct import DIRECT
from indexer.audit.run import audit
from indexer.rebuild import rebuild
from indexer.sources import sources_of
from scripts._stack import wallets
from tests.support.keeper_bets import settler, token, view
from tests.support.keeper_rig import Rig, call_data
from tests.support.relay_crowd import EACH, Crowd

LANES = (*wallets.RELAY_LANES[:2], wallets.OPENER)


def lanes(rig: Rig) -> dict[str, tuple[int, int]]:
    """What each lane holds, and its next nonce."""
    return {one.address: (ether(rig, one), nonce(rig, one)) for one in LANES}


async def ended(rig: Rig, crowd: Crowd) -> list[Any]:
    """Brings everything to its end; the crowd's bets that are on the chain."""
    await settle_everything(rig)
    rig.stop("keeper")  # it would go on asking; what it asked for so far must end
    await drained(rig)
    used = {(e.authorizer, e.nonce) for e in logs(rig, token(rig), TOKEN_EVENTS, AuthorizationUsed)}
    return [each for each in crowd.placed if (bytes.fromhex(each.bet.signer[2:]), each.bet.nonce) in used]


async def assert_nothing_is_lost_or_doubled(
    rig: Rig, crowd: Crowd, landed: list[Any], lanes_before: dict[str, tuple[int, int]]
) -> None:
    assert len(landed) >= 50, "there was too little to prove anything by"
    on_chain = {each.bet.nonce for each in landed}
    # Sent, and mined after the bell; that may have been told in an answer that did not arrive.
    reverted = {
        bytes(nonce)
        for (nonce,) in rig.rows(
            "SELECT b.nonce FROM relay_bet b JOIN outbox_intent i ON i.key LIKE "
            "'relay:' || b.chain_id || ':' || encode(b.signer, 'hex') || ':' || encode(b.nonce, 'hex') || ':%%' "
            "WHERE i.outcome = 'reverted'"
        )
    }
    for placed in crowd.placed:
        assert placed.end is not None, f"no final answer in {placed.answers[-5:]}"
        if placed.accepted and placed.end != "reverted" and placed.bet.nonce not in reverted:
            assert placed.bet.nonce in on_chain, f"accepted, and not on the chain: {placed.answers}"
    assert_positions_are_the_landed_bets(rig, crowd, landed)
    assert_wallets_add_up(rig, crowd, landed)
    assert_intents_were_mined_once(rig)
    assert_lanes_add_up(rig, lanes_before)
    assert_keepers_acted_once(rig)
    await assert_index_equals_the_contracts(rig)


async def settle_everything(rig: Rig) -> None:
    """Lets time pass until every short market is settled and paid; the keeper does the rest. It opens no more."""
    rig.stop("keeper")
    rig.start("keeper", VPM_KEEPER_LOCAL_DRILLS="0")
    opening = "SELECT 1 FROM outbox_intent WHERE kind IN ('open', 'approve') AND state IN ('queued', 'signed', 'sent')"
    await rig.until(lambda: not rig.rows(opening), "the end of listing", 120)
    await rig.until(lambda: _indexed(rig), "the index at the head", 120)
    unsettled = "SELECT strike_time, final_time FROM stock_market WHERE closed_tx IS NULL AND family = 2"
    for moment in sorted({moment for row in rig.rows(unsettled) for moment in (row[0] + 2, row[1] + 2, row[1] + 62)}):
        if moment > rig.now("stock"):
            rig.warp("stock", moment)
            await asyncio.sleep(1)
    await rig.until(lambda: not rig.rows(unsettled), "every end", 240)
    unpaid = (
        "SELECT p.position_id FROM stock_position p JOIN stock_market m USING (market_id) "
        "WHERE m.closed_tx IS NOT NULL AND NOT (p.claimed AND p.refunded)"
    )

    def all_paid() -> bool:
        return not any(dues(rig, [position for (position,) in rig.rows(unpaid)]))

    # Longer crowds have more to be paid.
    await rig.until(all_paid, "every payout", 180 + len(rig.rows("SELECT 1 FROM stock_position")) / 20)


def dues(rig: Rig, positions: list[int]) -> list[int]:
    """What the contract says it still owes for each position: the fifth word of `settlement`."""
    found = []
    for at in range(0, len(positions), 500):
        calls = [
            {"to": settler(rig), "data": "0x" + call_data("settlement(uint256)", ["uint256"], [each]).hex()}
            for each in positions[at : at + 500]
        ]
        found += [int(answer[2 + 4 * 64 : 2 + 5 * 64], 16) for answer in view_all(rig, calls)]
    return found


def view_all(rig: Rig, calls: list[dict[str, str]]) -> list[str]:
    """The answers of many view calls in one request."""
    body = [
        {"jsonrpc": "2.0", "id": number, "method": "eth_call", "params": [call, "latest"]}
        for number, call in enumerate(calls)
    ]
    request = urllib.request.Request(
        rig.chains["stock"].url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with DIRECT.open(request, timeout=60) as response:
        answers = {each["id"]: each["result"] for each in json.load(response)}
    return [answers[number] for number in range(len(calls))]


def _indexed(rig: Rig) -> bool:
    head = int(rig.ask("stock", "eth_blockNumber"), 16)
    rows = rig.rows("SELECT number FROM chain_cursor")
    return bool(rows) and rows[0][0] >= head - 1


async def drained(rig: Rig) -> None:
    live = "SELECT key, state FROM outbox_intent WHERE state NOT IN ('final', 'failed', 'replaced') LIMIT 3"
    await rig.until(lambda: not rig.rows(live), "the end of every intent", 240)


# ---------------------------------------------------------------- what must hold


def assert_positions_are_the_landed_bets(rig: Rig, crowd: Crowd, landed: list[Any]) -> None:
    """Each landed bet is one position, and there is no other of the crowd's."""
    crowded = {one.address.lower() for one in crowd.wallets}
    entered = Counter(
        (owner, e.market_id, e.outcome, e.offered)
        for e in logs(rig, settler(rig), SETTLER_EVENTS, Entered)
        if (owner := "0x" + e.owner.hex()) in crowded
    )
    bets = [placed.bet for placed in landed]
    assert entered == Counter((bet.signer.lower(), bet.market_id, bet.outcome, bet.amount) for bet in bets)


def assert_wallets_add_up(rig: Rig, crowd: Crowd, landed: list[Any]) -> None:
    """Start, less what was staked, plus what the contract paid: to the unit; and the contract owes nobody unbacked."""
    staked: defaultdict[str, int] = defaultdict(int)
    for placed in landed:
        staked[placed.bet.signer.lower()] += placed.bet.amount
    paid: defaultdict[str, int] = defaultdict(int)
    for e in logs(rig, settler(rig), SETTLER_EVENTS, Delivered):
        paid["0x" + e.owner.hex()] += e.payout + e.refund
    for one in crowd.wallets:
        address = one.address.lower()
        assert crowd.held(one) == EACH - staked[address] + paid[address], one.role
    assert view(rig, token(rig), "balanceOf(address)", ["address"], [settler(rig)]) == view(
        rig, settler(rig), "liabilities()", [], []
    )


def assert_intents_were_mined_once(rig: Rig) -> None:
    """An intent that ever had a nonce has exactly one mined transaction, and no transaction serves two."""
    rows = rig.rows("SELECT id, tx_hash, outcome, state FROM outbox_intent WHERE nonce IS NOT NULL")
    assert len({bytes(row[1]) for row in rows}) == len(rows)
    attempts = defaultdict(list)
    for intent, digest in rig.rows("SELECT intent_id, hash FROM outbox_transaction"):
        attempts[intent].append("0x" + bytes(digest).hex())
    for intent, digest, outcome, state in rows:
        found = [rig.ask("stock", "eth_getTransactionReceipt", each) for each in attempts[intent]]
        mined = [each for each in found if each is not None]
        assert [each["transactionHash"] for each in mined] == ["0x" + bytes(digest).hex()], (intent, state)
        assert (mined[0]["status"] == "0x1") == (outcome in ("succeeded", "cancelled")), (intent, outcome)


def assert_lanes_add_up(rig: Rig, before: dict[str, tuple[int, int]]) -> None:
    """Nonces without a gap, and no ether spent that no intent accounts for."""
    query = (
        "SELECT count(*), count(DISTINCT i.nonce), min(i.nonce), max(i.nonce), sum(i.value_wei + i.fee_wei) "
        "FROM outbox_intent i JOIN outbox_lane l ON l.id = i.lane_id WHERE l.address = %s"
    )
    for one in LANES:
        had, first = before[one.address]
        ((count, nonces, lowest, highest, spent),) = rig.rows(query, bytes.fromhex(one.address[2:]))
        if not count:
            continue
        assert count == nonces == highest - lowest + 1
        assert (lowest, highest + 1) == (first, nonce(rig, one))
        assert ether(rig, one) == had - int(spent), one.role


def assert_keepers_acted_once(rig: Rig) -> None:
    """A market for every listing, and one settlement for every market."""
    done = dict(rig.rows("SELECT kind, count(*) FROM outbox_intent WHERE outcome = 'succeeded' GROUP BY kind"))
    markets = view(rig, settler(rig), "marketCount()", [], [])
    assert done["open"] == markets == len(rig.rows("SELECT 1 FROM stock_market"))
    settled = rig.rows("SELECT 1 FROM stock_market WHERE closed_tx IS NOT NULL")
    assert done.get("resolve", 0) + done.get("void", 0) == len(settled) > 0


async def assert_index_equals_the_contracts(rig: Rig) -> None:
    """Every market and position of this history, as it was indexed and folded afresh; and a tampered row is found."""
    sources = sources_of(rig.deployment("stock"), "stock")
    await rig.until(lambda: _indexed(rig), "the index at the head", 120)
    rig.stop("indexer")
    async with (
        ChainProvider((rig.chains["stock"].url,), chain_id=sources.chain_id) as rpc,
        make_pool(rig.database_url, size=2) as pool,
    ):
        first = (await audit(pool, ChainClient(rpc), sources)).comparison
        assert first.mismatches == 0, first.detail[:5]
        await rebuild(pool, sources)
        second = (await audit(pool, ChainClient(rpc), sources)).comparison
        assert (second.mismatches, second.compared) == (0, first.compared), second.detail[:5]
        print(f"{first.compared} numbers compared with the contracts, before and after a rebuild: 0 mismatches")
        rig.rows(
            "UPDATE stock_position SET offered = offered + 1 WHERE position_id = "
            "(SELECT position_id FROM stock_position ORDER BY random() LIMIT 1) RETURNING 1"
        )
        tampered = (await audit(pool, ChainClient(rpc), sources)).comparison
        assert tampered.mismatches > 0


def logs(rig: Rig, address: str, layouts: Mapping[bytes, Layout], kind: type) -> list[Any]:
    """Every event of one kind a contract ever logged, as the chain tells it now."""
    chosen = next(topic for topic, each in layouts.items() if each.name == kind.__name__)
    asked = {"fromBlock": "0x0", "toBlock": "latest", "address": address, "topics": ["0x" + chosen.hex()]}
    found = []
    for log in rig.ask("stock", "eth_getLogs", asked):
        topics = bytes.fromhex("".join(topic[2:] for topic in log["topics"]))
        found.append(layouts[topics[:32]].read(topics, bytes.fromhex(log["data"][2:])))
    return found


def ether(rig: Rig, one: wallets.Wallet) -> int:
    return int(rig.ask("stock", "eth_getBalance", one.address, "latest"), 16)


def nonce(rig: Rig, one: wallets.Wallet) -> int:
    return int(rig.ask("stock", "eth_getTransactionCount", one.address, "latest"), 16)
