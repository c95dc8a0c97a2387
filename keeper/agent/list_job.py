"""`agent-list`: the standing threshold and ladder series. `agent-rounds`: the next up/down rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import select

from core.agent.bet import market_key
from core.agent.book import FeedTerms, ListingBounds
from core.agent.document import Metadata, feed_keys
from core.chain import values
from core.contracts.names import made_of
from core.db.schema.index_agent import agent_market
from core.outbox import LISTER
from keeper import metrics
from keeper.agent.caps_job import bears_its_cap
from keeper.agent.listing import Listing, Priors, SeriesPlan, decide, round_plans, standing_plans
from keeper.agent.prior import VOLATILITY
from keeper.agent.series import Feed, Series, Slot
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun
from keeper.sources import simulated
from keeper.sources.remote import latest_round
from keeper.sources.sample import LatestRound

RETRY = RetryWaits(after_success_seconds=600.0, after_failure_seconds=20.0)
LAST_CALL_SECONDS = 15
"""Before bets on a market would end, a listing that is not mined is given up."""

MARKETS = agent_market.c


async def list_series(run: JobRun) -> None:
    if not _standing_series(run):
        run.report.skip("everything", "VPM_KEEPER_LIST_SERIES is not set, and this is not a local deployment")
        return
    if await _cannot_list(run):
        return
    feeds = await _feeds(run)
    await _list(run, feeds, standing_plans(feeds, await _latest(run, feeds)))


async def list_rounds(run: JobRun) -> None:
    if await _cannot_list(run):
        return
    feeds, seconds = await _feeds(run), run.keeper.how.round_seconds
    await _list(run, feeds, round_plans(feeds, await _latest(run, feeds), seconds, quick=run.chain.is_local))


def _standing_series(run: JobRun) -> bool:
    chosen = run.keeper.how.list_series
    return run.chain.is_local if chosen is None else chosen


async def _cannot_list(run: JobRun) -> bool:
    return run.stops(run.index_problem() or await run.lanes_problem(LISTER))


async def _feeds(run: JobRun) -> list[Feed]:
    """Return those of the deployment file that the Safe allows, with its numbers."""
    lister = run.chain.contract("AgentLister")
    sources = run.chain.deployment.agent_feeds
    answers = values(await run.read_all([lister.call("feed", each.address) for each in sources]))
    feeds = []
    for source, answer in zip(sources, answers, strict=True):
        if answer["condemned"] or not answer["allowed"]:
            why = "the Safe has condemned its feed" if answer["condemned"] else "the Safe does not allow its feed"
            run.report.skip(source.key, why)
        elif not await bears_its_cap(run, source.key):
            run.report.skip(source.key, f"its pools bear too little of its feed's cap now; {CAP_REMEDY}")
        else:
            feeds.append(Feed(source.key, source.address, made_of(FeedTerms, answer)))
    return feeds


async def _latest(run: JobRun, feeds: Sequence[Feed]) -> list[LatestRound | None]:
    return [
        await latest_round(run.chain.client, run.chain.at(feed.address, "ObservationFeed"), run.head) for feed in feeds
    ]


async def _bounds(run: JobRun) -> ListingBounds:
    answer: Any = await run.read(run.chain.contract("AgentLister").call("bounds"))
    return made_of(ListingBounds, answer)


def _priors(run: JobRun) -> Priors:
    percent = run.keeper.how.volatility_percent
    if percent is not None:
        volatility = percent / 100
    else:
        volatility = simulated.YEARLY_VOLATILITY if run.chain.is_local else VOLATILITY
    return Priors(run.keeper.how.weight_units, volatility)


async def _filled(run: JobRun) -> set[Slot]:
    """Return the slots of markets still to end; whoever listed them, their metadata name the series."""
    keys = feed_keys(run.chain.deployment.agent_feeds)
    query = select(MARKETS.document, MARKETS.feed, MARKETS.ends_at).where(
        MARKETS.ends_at > run.now, MARKETS.document.is_not(None)
    )
    series, slots = set(Series), set()
    for document, feed, ends_at in await run.rows(query):
        metadata, key = Metadata.read(document), keys.get(bytes(feed))
        if metadata is not None and key is not None and metadata.series in series:
            slots.add(Slot(Series(metadata.series), key, ends_at))
    return slots


CAP_REMEDY = "markets are listed again once they bear it, or once the Safe has set a smaller one (ape run allow_feed)"

REMEDIES = {
    "supply moved": "; a feed's supply is fixed: deploy one with the new supply and have the Safe allow it",
    "pool is shallow": "; markets are listed again once half of the liquidity of its reference is back",
    "pool is quiet": "; markets are listed again once somebody trades in the pool",
    "ring too short": "; grow what the pool remembers, or let agent-record do it",
}
"""What to do about an error that does not go away by itself."""


async def _list(run: JobRun, feeds: Sequence[Feed], plans: Iterable[SeriesPlan]) -> None:
    listings, skipped = decide(plans, await _filled(run), run.now, await _bounds(run), _priors(run))
    run.report.skipped += skipped
    await run.free([each.slot.subject for each in listings], RETRY)
    rooms = {feed.address: feed.terms.feed_cap - await _open_on(run, feed) for feed in feeds}
    left = {feed.key: max(0, rooms[feed.address] // feed.terms.pot_cap) for feed in feeds}  # down
    metrics.show_feeds(metrics.FEED_ROOM, left)
    for each in listings:
        feed = each.feed
        if rooms[feed.address] < feed.terms.pot_cap:
            run.report.skip(each.id, "its feed's unsettled markets leave no room for another under the feed's cap")
        elif await _ask(run, each):
            rooms[feed.address] -= feed.terms.pot_cap


async def _open_on(run: JobRun, feed: Feed) -> int:
    """Return what the pot caps of a feed's unsettled markets add up to."""
    open_: Any = await run.read(run.chain.contract("AgentLister").call("openOn", feed.address))
    return int(open_)


async def _ask(run: JobRun, listing: Listing) -> bool:
    """Ask for a listing that the contract itself would take now; return whether it would."""
    lister = run.chain.contract("AgentLister", "SettlementWallet", "FeedResolver", "PoolFeed")
    objection = await run.objection(lister.call("preview", listing.arguments()))
    if objection is not None:
        remedy = next((each for name, each in REMEDIES.items() if name in objection), "")
        run.report.skip(listing.id, objection + remedy)
        return False
    call = lister.call("list", market_key(listing.id), listing.arguments(), listing.metadata.canonical())
    request = TransactionRequest(
        kind="list",
        subjects=(listing.slot.subject,),
        target=listing.id,
        detail=f"list “{listing.question}”",
        group=LISTER,
        call=call,
        not_after=listing.spec.closes_at - LAST_CALL_SECONDS,
    )
    await run.ask(request, RETRY)
    return True
