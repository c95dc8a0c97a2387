"""Checks each bet of the load, exactly once: on the chains, in the ledger and on the public pages."""

from __future__ import annotations

import asyncio
import time

from core.agent.bet import idem_hash
from core.chain import checksum
from core.hexadecimal import bytes_of, hex_of
from scripts._stack.parts import CHAIN_IDS
from tests.support.fleet import DidNotHappen, Fleet, ran
from tests.support.fleet_load import Load, LoadReport, Promise

WARM_SECONDS = 150.0
TRY_EVERY_SECONDS = 4.0
SETTLED_WITHIN_SECONDS = 90.0

# What the index must never hold of payments, and how many of it there are.
_PAIRS = {
    "payments were booked twice": (
        "SELECT count(*) FROM (SELECT wallet, nonce FROM agent_stake GROUP BY 1, 2 HAVING count(*) > 1) x"
    ),
    "agent stakes lack the transfer of their amount": (
        "SELECT count(*) FROM agent_stake s WHERE NOT EXISTS (SELECT 1 FROM token_authorization a"
        " WHERE a.chain_id = 8453 AND a.authorizer = s.wallet AND a.nonce = s.nonce AND a.state = 'paid'"
        " AND a.value = s.amount)"
    ),
    "authorizations were used without a transfer in the next log": (
        "SELECT count(*) FROM token_authorization WHERE state = 'unpaired'"
    ),
}
# How many bets wallets have in the cup, whose ledger nothing but us keeps from a second one.
_PAPER_BETS = {
    "cup": "SELECT count(*) FROM cup_trade WHERE wallet = ANY(%s)",
    "wheel": "SELECT count(*) FROM cup_bet WHERE wallet = ANY(%s)",
}


async def faults(fleet: Fleet, load: Load | None) -> list[str]:
    """Return a sentence for each fault, after the index and the outbox have come to rest."""
    broken: list[str] = []
    for chain in CHAIN_IDS:
        try:
            await fleet.indexed(chain, SETTLED_WITHIN_SECONDS)
        except DidNotHappen as error:
            broken.append(str(error))
    if load is not None:
        await load.settle()
        broken += [f"unanswered: {_about(one)}" for one in load.waiting]
        broken += [f"the load met {each}" for each in load.unexpected[:5]]
        for one in load.promises:
            broken += await _kept(fleet, one)
        broken += await _no_more(fleet, load)
    broken += await _outbox(fleet)
    broken += await _mined_once(fleet)
    broken += await _solvency(fleet)
    if not broken:
        broken += await _audited(fleet)
    return broken


async def _kept(fleet: Fleet, one: Promise) -> list[str]:
    if one.report is LoadReport.WAITING:
        return []
    times = await times_there(fleet, one)
    expected = 1 if one.report is LoadReport.TAKEN else 0
    return [] if times == expected else [f"{_about(one)} is there {times} times, not {expected}"]


async def _no_more(fleet: Fleet, load: Load) -> list[str]:
    """Check that bettors have only the bets they placed; a bet placed twice may have another key."""
    broken = []
    wallets = sorted({one.wallet.address.lower() for one in load.promises})
    for surface, query in _PAPER_BETS.items():
        ((count,),) = await fleet.ask_database(query, wallets)
        if count != len(load.taken(surface)):
            broken.append(f"bettors have {count} {surface} bets and were promised {len(load.taken(surface))}")
    return broken


def _about(one: Promise) -> str:
    why = one.answer.get("error") if isinstance(one.answer, dict) else one.answer
    return f"{one.surface} bet {one.key[:18]} of {one.wallet.role} ({one.report}, last answer {why}, {one.tries} tries)"


async def _outbox(fleet: Fleet) -> list[str]:
    broken = []
    try:
        await fleet.until(lambda: not _unfinished(fleet), "the outbox empty", SETTLED_WITHIN_SECONDS)
    except DidNotHappen:
        broken += [f"{count} {kind} on {chain} are still {state}" for chain, kind, state, count in _unfinished(fleet)]
    for what, query in _PAIRS.items():
        ((count,),) = await fleet.ask_database(query)
        if count:
            broken.append(f"{count} {what}")
    entered = await fleet.ask_database(
        "SELECT (SELECT count(*) FROM stock_position WHERE vintage > 0),"
        " (SELECT count(*) FROM token_authorization WHERE chain_id = 4663 AND state = 'paid')"
    )
    if entered[0][0] != entered[0][1]:
        broken.append(f"{entered[0][0]} positions were entered with {entered[0][1]} authorizations")
    return broken


async def _mined_once(fleet: Fleet) -> list[str]:
    broken = []
    rows = await fleet.ask_database(
        "SELECT i.chain_id, i.id, i.tx_hash, t.hash FROM outbox_intent i"
        " JOIN outbox_transaction t ON t.intent_id = i.id WHERE i.state = 'final' AND i.nonce IS NOT NULL"
    )
    chains = {chain_id: name for name, chain_id in CHAIN_IDS.items()}
    for chain_id, intent, named, digest in rows:
        receipt = await fleet.rpc(chains[chain_id], "eth_getTransactionReceipt", hex_of(bytes(digest)))
        if (receipt is not None) != (bytes(named) == bytes(digest)):
            mined = "mined" if receipt is not None else "not mined"
            broken.append(f"intent {intent} names {hex_of(bytes(named))}, and {hex_of(bytes(digest))} is {mined}")
    return broken


async def lane_faults(fleet: Fleet) -> list[str]:
    """Return a sentence for each lane with a nonce that no intent has. It is meant for tests that do not use a lane's
    key themselves."""
    broken = []
    chains = {chain_id: name for name, chain_id in CHAIN_IDS.items()}
    for lane, chain_id, address in await fleet.ask_database("SELECT id, chain_id, address FROM outbox_lane"):
        # Asked in this order, for a transaction is stored before it is sent.
        sent = int(await fleet.rpc(chains[chain_id], "eth_getTransactionCount", hex_of(bytes(address)), "latest"), 16)
        ((count, first, last),) = await fleet.ask_database(
            "SELECT count(nonce), min(nonce), max(nonce) FROM outbox_intent WHERE lane_id = %s", lane
        )
        if last is None:
            continue
        if count != last - first + 1 or sent > last + 1:
            broken.append(
                f"{hex_of(bytes(address))} sent {sent} transactions on {chains[chain_id]}; nonces {first} to {last} are"
                f" those of {count} intents"
            )
    return broken


def _unfinished(fleet: Fleet) -> list[tuple[object, ...]]:
    """Return what has been waiting longer than an ordinary transaction takes."""
    return fleet.rows(
        "SELECT chain_id, kind, state, count(*) FROM outbox_intent WHERE state IN ('queued', 'signed', 'sent')"
        " AND created_at < now() - interval '20 s' GROUP BY 1, 2, 3"
    )


async def _solvency(fleet: Fleet) -> list[str]:
    broken = []
    for chain, name in (("base", "SettlementWallet"), ("stock", "VestedMarkets")):
        contract = fleet.contract(chain, name)
        owed = await fleet.read(chain, contract.call("liabilities"))
        owed = sum(owed) if isinstance(owed, tuple) else owed
        balance = await fleet.read(chain, fleet.token(chain).call("balanceOf", contract.address))
        if balance < owed:
            broken.append(f"{name} holds {balance} and owes {owed}")
    return broken


async def _audited(fleet: Fleet) -> list[str]:
    """Run `vpm audit`, which compares every table with the contracts' views. Try once more after a reorganization."""
    said = ""
    for _ in range(3):
        code, said = await index_command(fleet, "audit")
        if code == 0:
            return []
        await asyncio.sleep(2)
    return [f"the audit: {' '.join(said.split())[-400:]}"]


async def index_command(fleet: Fleet, *words: str) -> tuple[int, str]:
    done = await asyncio.to_thread(ran, "indexer", *words, env=fleet.environment("indexer-0"))
    return done.returncode, done.stdout + done.stderr


async def warm(fleet: Fleet, load: Load) -> None:
    """Wait until a bet was taken on every surface, because an earlier fault would hit something that does not work
    yet."""
    surfaces = ("stock", "agent", "cup")
    what = "a bet taken on every surface"
    took = await fleet.until(lambda: all(load.taken(surface) for surface in surfaces), what, WARM_SECONDS)
    print(f"{what} after {took:.0f} s")


async def bet_taken(fleet: Fleet, load: Load, seconds: float) -> float:
    """Wait until a new gasless bet is confirmed, on the chain once, and on its owner's page. Return the seconds. A bet
    that has to wait does not delay the next."""
    trying: list[asyncio.Task[Promise | None]] = []
    tried = 0.0

    async def taken() -> bool:
        nonlocal tried
        if time.monotonic() - tried > TRY_EVERY_SECONDS:
            tried = time.monotonic()
            trying.append(asyncio.create_task(load.stock()))
        done = [task.result() for task in trying if task.done() and task.exception() is None]
        for promise in done:
            if promise is None or promise.report is not LoadReport.TAKEN:
                continue
            if await times_there(fleet, promise) == 1 and await is_public(load, promise):
                return True
        return False

    took = await fleet.until(taken, "a new bet confirmed, on the chain and on its owner's page", seconds)
    load.adopt(trying)
    return took


async def times_there(fleet: Fleet, one: Promise) -> int:
    if one.surface == "stock":
        call = fleet.token("stock").call("authorizationState", one.wallet.address, bytes_of(one.key))
        return int(bool(await fleet.read("stock", call)))
    if one.surface == "agent":
        call = fleet.contract("base", "SettlementWallet").call(
            "stakeOf", checksum(one.wallet.address), idem_hash(one.key)
        )
        return int(await fleet.read("base", call) != 0)
    if one.surface == "wheel":
        round_no, wallet, bet_key = one.key.split()
        rows = await fleet.ask_database(
            "SELECT count(*) FROM cup_bet WHERE round_no = %s AND wallet = %s AND bet_key = %s",
            int(round_no),
            wallet,
            bet_key,
        )
        return int(rows[0][0])
    rows = await fleet.ask_database("SELECT count(*) FROM cup_trade WHERE trade_id = %s", one.key)
    return int(rows[0][0])


async def is_public(load: Load, bet: Promise) -> bool:
    assert bet.request is not None
    status, body = await load.call("GET", f"/api/positions?owner={bet.wallet.address}")
    return status == 200 and any(
        each["marketId"] == bet.request[1]["marketId"] and int(each["offered"]) == bet.amount
        for each in body["positions"]
    )


async def offered_by(fleet: Fleet, position: int) -> int:
    contract = fleet.contract("stock", "VestedMarkets")
    try:
        return int((await fleet.read("stock", contract.call("position", position)))["offered"])
    except ValueError:
        return 0
