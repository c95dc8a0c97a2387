"""`agent-list`: the standing threshold and ladder series. `agent-rounds`: the next up/down rounds."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from core.db.schema.index_agent import agent_market
from core.outbox import LISTER
from keeper.agent.listing import Unlisted, Wanted, decide_rounds, decide_series
from keeper.agent.series import Feed, Series, Slot, VenueTerms
from keeper.desk import Run
from keeper.errands import Rest, Want
from keeper.sources.chainlink import latest_round
from keeper.sources.sample import Round

REST = Rest(after_success=600.0, after_failure=20.0)
LAST_CALL_SECONDS = 30
"""Before a round starts, or a market closes, a listing that is not mined is given up."""

MARKETS = agent_market.c


async def list_series(run: Run) -> None:
    if not _standing_series(run):
        run.report.skip("everything", "VPM_KEEPER_LIST_SERIES is not set, and this is not a local deployment")
        return
    if await _cannot_list(run):
        return
    feeds = _feeds(run)
    await _list(run, *decide_series(feeds, await _latest(run, feeds), await _filled(run), run.now))


async def list_rounds(run: Run) -> None:
    if await _cannot_list(run):
        return
    feeds, seconds = _feeds(run), run.keeper.how.round_seconds
    latest, filled = await _latest(run, feeds), await _filled(run)
    await _list(run, *decide_rounds(feeds, latest, filled, run.now, seconds, quick=run.desk.is_local))


def _standing_series(run: Run) -> bool:
    chosen = run.keeper.how.list_series
    return run.desk.is_local if chosen is None else chosen


def _feeds(run: Run) -> list[Feed]:
    return [Feed(each.key, each.address) for each in run.desk.deployment.observation_feeds]


async def _latest(run: Run, feeds: Sequence[Feed]) -> list[Round | None]:
    return [
        await latest_round(run.desk.client, run.desk.at(feed.address, "ObservationFeed"), run.head) for feed in feeds
    ]


async def _cannot_list(run: Run) -> bool:
    problem = run.index_problem() or await run.lanes_problem(LISTER)
    if problem is not None:
        run.report.skip("everything", problem)
    return problem is not None


async def _filled(run: Run) -> set[Slot]:
    """The slots of markets still to close; whoever listed them, their document names the series."""
    query = select(MARKETS.document["series"].astext, MARKETS.document["tokenSymbol"].astext, MARKETS.closes_at).where(
        MARKETS.closes_at > run.now, MARKETS.document.is_not(None)
    )
    async with run.keeper.engine.connect() as connection:
        rows = (await connection.execute(query)).all()
    known = set(Series)
    return {Slot(Series(series), symbol, closes_at) for series, symbol, closes_at in rows if series in known and symbol}


async def _list(run: Run, wanted: Sequence[Wanted], unlisted: Sequence[Unlisted]) -> None:
    for left in unlisted:
        run.report.skip(left.target, left.reason)
    params = run.desk.deployment
    terms = VenueTerms(params.param("feeBps"), params.param("voidDelaySeconds"), run.keeper.how.virtual_liquidity_units)
    wallet = run.desk.contract("SettlementWallet")
    await run.free([each.slot.subject for each in wanted], REST)
    for each in wanted:
        design = each.design
        call = wallet.call("list", design.document.market_id, design.spec(terms, run.now), design.document.canonical())
        want = Want(
            kind="list",
            subjects=(each.slot.subject,),
            target=design.document.id,
            detail=f"list “{design.document.question}”",
            group=LISTER,
            to=call.to,
            data=call.data,
            not_after=(design.start_at or design.closes_at) - LAST_CALL_SECONDS,
        )
        await run.ask(want, REST)
