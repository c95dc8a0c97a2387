"""`resolve`: settles or voids each market from a minute after its close, as the resolver's preview says. It waits
before voiding a market for a stale reading."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select

from core.chain import Call, ChainClient, values
from core.contracts.statuses import PreviewStatus, RoundProblem, StockMarketStatus
from core.db.schema.index_stock import stock_market
from core.hexadecimal import hex_of
from core.stock.settling import EndingCall, ending_call
from keeper.run import JobRun
from keeper.settling import NO_OTHER_NODES, NodeQuorum, NodeVerdict, Wait, poll_nodes, request_ending, wait_before_void

AFTER_BELL_SECONDS = 60
"""The shortest wait before settling: a round of the final second may still be on its way into a block. The resolver's
own delay may be longer."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about an unsettled market at one block. A round is 0 if none is in effect. `strike_problem` and
    `final_problem` come from the round finder."""

    market_id: int
    final_time: int
    freeze_time: int
    void_delay: int
    is_open: bool  # according to the contract, not the index
    status: PreviewStatus
    strike_round: int = 0
    final_round: int = 0
    strike_problem: RoundProblem = RoundProblem.OK
    final_problem: RoundProblem = RoundProblem.OK
    agreed: bool = False  # two reads some time apart agree
    quorum: NodeQuorum = NO_OTHER_NODES

    @property
    def rounds(self) -> tuple[int, int]:
        return self.strike_round, self.final_round

    @property
    def anyone_voids_from(self) -> int:
        return self.freeze_time + self.void_delay


@dataclass(frozen=True, slots=True)
class Settle:
    call: EndingCall
    why: str


def decide(facts: Facts, now: int) -> Settle | Wait:
    if not facts.is_open:
        return Wait("it is settled, but the settlement is not indexed yet")
    if now < facts.final_time + AFTER_BELL_SECONDS:
        return Wait(f"{facts.final_time + AFTER_BELL_SECONDS - now} s left until one minute after its close")
    match facts.status:
        case PreviewStatus.UP | PreviewStatus.DOWN | PreviewStatus.FLAT:
            word = "flat, so it is void" if facts.status is PreviewStatus.FLAT else facts.status.name
            return _settle(facts, f"the rounds say {word}")
        case PreviewStatus.BAD_ANSWER:
            return _settle(facts, "a round in effect has no price")
        case PreviewStatus.STALE:
            wait = wait_before_void(
                "its readings are stale",
                facts.final_time,
                now,
                agreed=facts.agreed,
                quorum=facts.quorum,
                waited_long=now >= facts.anyone_voids_from,
            )
            why = f"a reading is older than its limit, or from a sequencer outage{facts.quorum.remark}"
            return wait or _settle(facts, why)
        case PreviewStatus.PAUSED:
            return _settle(facts, "the stock's oracle was paused at a reading, or its multiplier changed")
        case PreviewStatus.BAD_PROOF:
            if now >= facts.anyone_voids_from:
                return _settle(facts, f"nothing could settle it: {_problem(facts)}")
            return Wait(f"{_problem(facts)}; anyone may void it in {facts.anyone_voids_from - now} s")
        case PreviewStatus.NOT_READY:
            return Wait("the resolver is waiting for late rounds or for the sequencer")


def _settle(facts: Facts, why: str) -> Settle:
    call = ending_call(facts.status, facts.market_id, facts.rounds, is_voidable=True)
    assert call is not None, "a market that may be voided has a call that ends it"
    return Settle(call, why)


def _problem(facts: Facts) -> str:
    which = "strike" if facts.strike_problem is not RoundProblem.OK else "final"
    problem = facts.strike_problem if which == "strike" else facts.final_problem
    return f"no {which} reading can be proven ({problem.name.lower().replace('_', ' ')})"


MARKETS = stock_market.c


async def resolve_markets(run: JobRun) -> None:
    past_close = select(stock_market).where(MARKETS.closed_tx.is_(None), MARKETS.final_time < run.now)
    due = await run.rows(past_close.order_by(MARKETS.final_time, MARKETS.market_id))
    run.measure_due("markets", (row.final_time for row in due))
    for row, facts in zip(due, await _facts(run, due), strict=True):
        name = f"{row.ticker or 'market'} #{row.market_id}"
        decision = decide(await _agreement(run, facts), run.now)
        if isinstance(decision, Wait):
            run.report.skip(name, decision.reason)
            continue
        call = run.chain.contract(decision.call.contract).call(decision.call.function, *decision.call.arguments)
        await request_ending(run, f"stock:resolve:{row.market_id}", name, call, decision.why)


async def _facts(run: JobRun, due: list[Any]) -> list[Facts]:
    settler, resolver = run.chain.contract("VestedMarkets"), run.chain.contract("RoundResolver")
    calls = []
    for row in due:
        feed = hex_of(row.feed)
        calls += [
            settler.call("market", row.market_id),
            resolver.call("preview", row.market_id),
            resolver.call("findRound", feed, row.strike_time),
            resolver.call("findRound", feed, row.final_time),
        ]
    answers = values(await run.read_all(calls))  # our own views never revert
    return [
        Facts(
            market_id=row.market_id,
            final_time=row.final_time,
            freeze_time=row.freeze_time,
            void_delay=row.void_delay,
            is_open=market["status"] == StockMarketStatus.OPEN,
            status=PreviewStatus(preview[0]),
            strike_round=strike[0],
            final_round=final[0],
            strike_problem=RoundProblem(strike[1]),
            final_problem=RoundProblem(final[1]),
        )
        for row, market, preview, strike, final in zip(
            due, answers[::4], answers[1::4], answers[2::4], answers[3::4], strict=True
        )
    ]


async def _agreement(run: JobRun, facts: Facts) -> Facts:
    """Return the facts, updated with whether an earlier read and the other nodes agree that a market's reading is
    stale."""
    if facts.status is not PreviewStatus.STALE or not facts.is_open:
        return facts
    what = f"STALE {facts.strike_round} {facts.final_round}"
    if not await run.is_confirmed(f"stock:stale:{facts.market_id}", what):
        return facts
    call = run.chain.contract("RoundResolver").call("preview", facts.market_id)
    quorum = await poll_nodes(run.chain.single_nodes, lambda client: _verdict(client, call, facts))
    return replace(facts, agreed=True, quorum=quorum)


async def _verdict(client: ChainClient, call: Call, facts: Facts) -> NodeVerdict:
    status, strike, _, _, final, _, _ = await client.read(call)
    return NodeVerdict.SAME if status == PreviewStatus.STALE and (strike, final) == facts.rounds else NodeVerdict.OTHER
