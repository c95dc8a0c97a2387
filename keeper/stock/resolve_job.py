"""`resolve`: settles every market a minute after its bell, or voids it on proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import select

from core.chain import Call, ChainClient, values
from core.contracts.statuses import PreviewStatus, RoundProblem, StockMarketStatus
from core.db.schema.index_stock import stock_market
from core.hexadecimal import hex_of
from keeper.errands import RetryWaits, Want
from keeper.opinions import Word, ask_each
from keeper.run import JobRun
from keeper.stock.settling import Facts, decide
from keeper.waits import Wait

RETRY = RetryWaits(after_success_seconds=120.0, after_failure_seconds=15.0, longest_seconds=900.0)

MARKETS = stock_market.c


async def resolve_markets(run: JobRun) -> None:
    due = await _due(run)
    run.measure_due("markets", (row.final_time for row in due))
    for row, facts in zip(due, await _facts(run, due), strict=True):
        name = f"{row.ticker or 'market'} #{row.market_id}"
        decision = decide(await _agreement(run, facts), run.now)
        if isinstance(decision, Wait):
            run.report.skip(name, decision.reason)
            continue
        call = run.chain.contract(decision.contract).call(decision.function, *decision.arguments)
        want = Want(
            kind="resolve" if decision.function == "resolveWith" else "void",
            subjects=(f"stock:resolve:{row.market_id}",),
            target=name,
            detail=f"{decision.function}: {decision.why}",
            call=call,
            priority=5,
        )
        await run.ask(want, RETRY)


async def _due(run: JobRun) -> list[Any]:
    """Markets past their bell that the index holds open."""
    query = (
        select(
            MARKETS.market_id,
            MARKETS.ticker,
            MARKETS.feed,
            MARKETS.strike_time,
            MARKETS.final_time,
            MARKETS.freeze_time,
            MARKETS.void_delay,
        )
        .where(MARKETS.closed_tx.is_(None), MARKETS.final_time < run.now)
        .order_by(MARKETS.final_time, MARKETS.market_id)
    )
    return await run.rows(query)


async def _facts(run: JobRun, due: list[Any]) -> list[Facts]:
    """What settler, resolver and round finder say at this run's head."""
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
    answers = values(await run.read_all(calls))  # views of ours that never revert
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
    """The facts, with whether an earlier read and what each other node say what this one says about staleness."""
    if facts.status is not PreviewStatus.STALE or not facts.is_open:
        return facts
    what = f"STALE {facts.strike_round} {facts.final_round}"
    if not await run.agreed(f"stock:stale:{facts.market_id}", what):
        return facts
    call = run.chain.contract("RoundResolver").call("preview", facts.market_id)
    opinions = await ask_each(run.chain.opinions, lambda client: _opinion(client, call, facts))
    return replace(facts, agreed=True, opinions=opinions)


async def _opinion(client: ChainClient, call: Call, facts: Facts) -> Word:
    status, strike, _, _, final, _, _ = await client.read(call)
    return Word.SAME if status == PreviewStatus.STALE and (strike, final) == facts.rounds else Word.OTHER
