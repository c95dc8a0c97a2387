"""Whether anything was lost or doubled: every promise against the chains and the ledger, tables against contracts."""

from __future__ import annotations

import asyncio
import json

from scripts._drill.fleet import DidNotHappen, Fleet, ran
from scripts._drill.load import Load, LoadReport, Promise
from scripts._drill.witness import times_there
from scripts._stack.chains import CHAIN_IDS

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


async def faults(fleet: Fleet, load: Load | None) -> list[str]:
    """Sentences; empty when everything holds. Waits for the index and the outbox to come to rest first."""
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
    broken += await _outbox(fleet)
    broken += await _solvency(fleet)
    if not broken:
        broken += await _audited(fleet)
    return broken


async def _kept(fleet: Fleet, one: Promise) -> list[str]:
    """A bet that was taken happened once; one that was refused never did."""
    if one.report is LoadReport.WAITING:
        return []
    times = await times_there(fleet, one)
    expected = 1 if one.report is LoadReport.TAKEN else 0
    return [] if times == expected else [f"{_about(one)} is there {times} times, not {expected}"]


def _about(one: Promise) -> str:
    why = one.answer.get("error") if isinstance(one.answer, dict) else one.answer
    return f"{one.surface} bet {one.key[:18]} of {one.wallet.role} ({one.report}, last answer {why}, {one.tries} tries)"


async def _outbox(fleet: Fleet) -> list[str]:
    """Nothing is left unsent, and no bet was entered twice."""
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


def _unfinished(fleet: Fleet) -> list[tuple[object, ...]]:
    """What waits for longer than an ordinary transaction takes."""
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
    """`vpm audit`: every table against the contracts' views. A reorganization meanwhile is worth a second try."""
    said = ""
    for _ in range(3):
        code, said = await index_command(fleet, "audit")
        if code == 0:
            return []
        await asyncio.sleep(2)
    return [f"the audit: {' '.join(said.split())[-400:]}"]


async def index_command(fleet: Fleet, *words: str) -> tuple[int, str]:
    """`vpm audit` or `vpm rebuild`, as an operator runs them beside the daemons: exit code and what was said."""
    done = await asyncio.to_thread(ran, "indexer", *words, env=fleet.environment("indexer-0"))
    return done.returncode, done.stdout + done.stderr


async def verified(fleet: Fleet, market_id: int) -> list[str]:
    """`vpm verify` of one stock market, as anybody would run it."""
    words = (str(market_id), "--rpc", fleet.urls["stock"], "--deployments", str(fleet.genesis.deployments), "--json")
    done = await asyncio.to_thread(ran, "scripts._verify", *words)
    if not done.stdout:
        return [f"vpm verify {market_id}: {done.stderr.strip()}"]
    claims = json.loads(done.stdout)["claims"]
    return [f"vpm verify {market_id}: {one['claim']}: {one['detail']}" for one in claims if one["verdict"] != "holds"]
