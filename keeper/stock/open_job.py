"""`open`: today's daily and this week's weekly markets, before the opening bell, for every allowed ticker.

`drill`: short markets, always some under way, on local deployments. `refund-drill`: one that will be void, on demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select

from core.chain import Contract, RpcError
from core.contracts.abi import abi
from core.contracts.statuses import Family
from core.db.schema.index_stock import stock_market
from core.hexadecimal import hex_of
from core.outbox import OPENER
from core.stock.sessions import sessions_around
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun
from keeper.stock.opening import (
    NOT_AFTER_MARGIN_SECONDS,
    DrillPlan,
    FeedState,
    ListedKey,
    ListingTerms,
    Opening,
    Purse,
    affordable,
    daily_window,
    decide_drills,
    decide_openings,
    opener_of,
    refund_drill,
    weekly_window,
)
from keeper.stock.witness import read_stocks

RETRY = RetryWaits(after_success_seconds=600.0)
DRILL_RETRY = RetryWaits(after_success_seconds=0.0, longest_seconds=120.0)
DRILLS = DrillPlan()
LISTED_SINCE_SECONDS = 30 * 86_400

MARKETS = stock_market.c


async def open_markets(run: JobRun) -> None:
    if await _cannot_list(run):
        return
    how = run.keeper.how
    sessions = await asyncio.to_thread(sessions_around, run.now)
    windows = [
        daily_window(sessions, run.now, how.daily_lead_seconds),
        weekly_window(sessions, run.now, how.weekly_lead_seconds),
    ]
    openings, skipped = decide_openings(await feed_states(run), windows, await _listed(run))
    run.report.skipped += skipped
    await _open(run, openings, RETRY)


async def open_drills(run: JobRun) -> None:
    if await _cannot_list(run):
        return
    finals, last_opened = await _drills(run)
    opening, skipped = decide_drills(await feed_states(run), finals, last_opened, run.now, DRILLS)
    run.report.skipped += skipped
    if opening is not None:
        await _open(run, [opening], DRILL_RETRY)


async def open_refund_drill(run: JobRun) -> None:
    if await _cannot_list(run):
        return
    allowed = [feed for feed in await feed_states(run) if feed.hindrance is None]
    if not allowed:
        run.report.skip("refund drill", "the lister allows no feed, or their stocks' oracles are paused")
        return
    await _open(run, [refund_drill(allowed[0], run.now, DRILLS)], DRILL_RETRY)


async def feed_states(run: JobRun) -> list[FeedState]:
    """Return the deployment's feeds as the lister knows them at this run's head."""
    lister, feeds = run.chain.contract("MarketLister"), run.chain.deployment.price_feeds
    answers: list[Any] = await run.read_all([lister.call("feed", feed.proxy) for feed in feeds])
    flags = [Contract(feed.stock_token, abi("LocalStockToken")).call("oraclePaused") for feed in feeds]
    paused = await read_stocks(run, flags)
    return [
        FeedState(
            ticker=feed.ticker,
            address=feed.proxy,
            allowed=answer["allowed"],
            max_strike_age=min(answer["maxStrikeAge"], feed.max_strike_age_seconds),
            max_final_age=min(answer["maxFinalAge"], feed.max_final_age_seconds),
            is_paused=isinstance(flag, RpcError) or bool(flag),
        )
        for feed, answer, flag in zip(feeds, answers, paused, strict=True)
    ]


async def _cannot_list(run: JobRun) -> bool:
    """Say why nothing may be listed now, if so: money is only put down where the present state is known."""
    problem = run.index_problem() or await run.lanes_problem(OPENER)
    if problem is None and await run.read(run.chain.contract("VestedMarkets").call("entriesPaused")):
        problem = "the guardian has paused new markets"
    return run.stops(problem)


async def _listed(run: JobRun) -> set[ListedKey]:
    query = select(MARKETS.feed, MARKETS.family, MARKETS.strike_time, MARKETS.final_time).where(
        MARKETS.strike_time > run.now - LISTED_SINCE_SECONDS
    )
    return {(hex_of(row.feed), row.family, row.strike_time, row.final_time) for row in await run.rows(query)}


async def _drills(run: JobRun) -> tuple[dict[str, int], int | None]:
    query = (
        select(MARKETS.feed, func.max(MARKETS.final_time), func.max(MARKETS.created_at))
        .where(MARKETS.family == int(Family.DRILL), MARKETS.created_at > run.now - LISTED_SINCE_SECONDS)
        .group_by(MARKETS.feed)
    )
    rows = await run.rows(query)
    return {hex_of(feed): final for feed, final, _ in rows}, max((opened for *_, opened in rows), default=None)


async def _open(run: JobRun, openings: Sequence[Opening], retry: RetryWaits) -> None:
    """Ask for the openings the opener can pay for, after an allowance where one is needed."""
    subjects = await run.ready({each.subject: each.target for each in openings}, retry)
    ready = [each for each in openings if each.subject in subjects]
    if not ready:
        return
    deployment = run.chain.deployment
    openers = [hex_of(lane.address) for lane in await run.lanes(OPENER)]
    if not openers:
        run.report.skip_all([each.target for each in ready], "the opener's lane has just been given back")
        return
    opener = opener_of(openers, deployment.operator_wallets.get("opener"))
    token = deployment.token("USDG").address
    lister = run.chain.contract("MarketLister", "VestedMarkets", "RoundResolver")
    erc20 = run.chain.at(token, "IERC3009")
    balance, allowance = await run.read_all(
        [erc20.call("balanceOf", opener), erc20.call("allowance", opener, lister.address)]
    )
    terms = ListingTerms(*(deployment.param(name) for name in ("seedPerLeg", "minEntry", "maxEntry")))
    purse = Purse(int(str(balance)), int(str(allowance)))
    payable, short, approval = affordable(ready, terms, purse)
    run.report.skipped += short
    depends_on = None
    if payable and approval is not None:
        call = erc20.call("approve", lister.address, approval)
        request = TransactionRequest(
            kind="approve",
            subjects=(f"stock:approve:{opener.lower()}",),
            target=f"allowance of {opener}",
            detail=f"let the lister take seeds of up to {approval} units from the opener",
            group=OPENER,
            call=call,
        )
        action = await run.ask(request, RetryWaits(after_success_seconds=30.0))
        if action is None:
            run.report.skip_all([opening.target for opening in payable], "its seed waits for an allowance")
            return
        depends_on = action.intent_id
    for opening in payable:
        await run.ask(_request(run, opening, terms, depends_on), retry)


def _request(run: JobRun, opening: Opening, terms: ListingTerms, depends_on: int | None) -> TransactionRequest:
    window = opening.window
    call = run.chain.contract("MarketLister").call(
        "open",
        {
            "feed": opening.feed.address,
            "strikeTime": window.strike,
            "finalTime": window.final,
            "maxStrikeAge": opening.max_strike_age,
            "maxFinalAge": opening.max_final_age,
            "seedPerLeg": terms.seed_per_leg,
            "minEntry": terms.min_entry,
            "maxEntry": terms.max_entry,
            "family": int(window.family),
        },
    )
    return TransactionRequest(
        kind="open",
        subjects=(opening.subject,),
        target=opening.target,
        detail=f"list {opening.target}, {window.final - window.strike} s long",
        group=OPENER,
        call=call,
        not_after=window.strike - NOT_AFTER_MARGIN_SECONDS,
        depends_on=depends_on,
        replay_safe=False,  # the lister would list a second market just like it
    )
