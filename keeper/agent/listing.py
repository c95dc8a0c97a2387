"""`agent-list`: lists the standing threshold and ladder series. `agent-rounds`: lists the next up/down rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from sqlalchemy import select

from core.agent.bet import market_key
from core.agent.book import MIN_STAKE, FeedTerms, ListingBounds, MarketSpec, listing_terms
from core.agent.document import Metadata, Specification, draft_document, feed_keys
from core.chain import checksum, values
from core.contracts.names import camel_fields, from_answer
from core.contracts.statuses import MarketKind
from core.db.schema.index_agent import agent_market
from core.hexadecimal import bytes_of
from core.outbox import LISTER
from keeper import metrics
from keeper.agent.caps_job import supports_its_cap
from keeper.agent.series import (
    HOUR,
    QUICK_SECONDS,
    VOLATILITY,
    Design,
    Feed,
    Series,
    Slot,
    Turn,
    WeightBounds,
    design_of,
    open_turns,
    rises,
    round_length,
    weights_for,
)
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun, Skipped
from keeper.sources import YEARLY_VOLATILITY, LatestRound, round_of

STANDING = (Series.TOUCH, Series.DAY, Series.FAR, Series.LADDER)
FRESH_SECONDS = 900
"""No market is listed if its feed's value is older: without new values every stake would be refunded."""


@dataclass(frozen=True, slots=True)
class Priors:
    """The parameters of market weights. `average` is the average weight of an outcome, in units. `volatility` is yearly
    (1 is 100%)."""

    average: int
    volatility: float


_CHOSEN = ("kind", "target", "bounds", "earlyResolvable", "opensAt", "closesAt", "startAt", "endsAt", "weights")


@dataclass(frozen=True, slots=True)
class Listing:
    slot: Slot
    feed: Feed
    spec: MarketSpec
    question: str
    metadata: Metadata

    @property
    def id(self) -> str:
        return self.metadata.id

    def arguments(self) -> dict[str, object]:
        """Return the contract's MarketSpec, by component name."""
        return {"feed": checksum(self.feed.address), **camel_fields(self.spec, *_CHOSEN)}


@dataclass(frozen=True, slots=True)
class SeriesPlan:
    """A series to list on a feed. A ladder's bounds vary with `position`."""

    series: Series
    feed: Feed
    position: int = 0
    round_seconds: int = HOUR

    @property
    def name(self) -> str:
        return f"{self.feed.key} {self.series}"


def standing_plans(feeds: Sequence[Feed]) -> list[SeriesPlan]:
    return [SeriesPlan(series, feed, position) for position, feed in enumerate(feeds) for series in STANDING]


def round_plans(feeds: Sequence[Feed], seconds: int, *, quick: bool) -> list[SeriesPlan]:
    """Return the up/down rounds of every feed.

    If `quick`, add short rounds on one feed that allows them. Prefer a feed without a publisher, because its rounds
    have no dispute window.
    """
    plans = [SeriesPlan(Series.HOUR, feed, round_seconds=seconds) for feed in feeds]
    if quick:
        able = [
            feed for feed in feeds if round_length(feed, QUICK_SECONDS) == QUICK_SECONDS != round_length(feed, seconds)
        ]
        able.sort(key=lambda feed: feed.terms.published)  # stable, so equal feeds keep their order
        plans += [SeriesPlan(Series.QUICK, feed, round_seconds=QUICK_SECONDS) for feed in able[:1]]
    return plans


def decide(
    plans: Iterable[SeriesPlan], filled: Set[Slot], now: int, bounds: ListingBounds, priors: Priors
) -> tuple[list[Listing], list[Skipped]]:
    """Return the markets to list now, and the skipped series with the reasons."""
    listings: list[Listing] = []
    skipped: list[Skipped] = []
    for plan in plans:
        if plan.series in STANDING and plan.feed.metric != "market_cap":
            skipped.append(Skipped(plan.name, f"standing series are about market caps, not {plan.feed.metric}"))
            continue
        turns = open_turns(plan.series, plan.feed, now, plan.round_seconds)
        empty = [turn for turn in turns if turn.slot not in filled]
        last, doubt = plan.feed.last, _doubt(plan.feed.last, now)
        if not empty:
            skipped.append(Skipped(plan.name, "already listed"))
        elif last is None or doubt is not None:
            skipped.append(Skipped(plan.name, str(doubt)))
        else:
            for turn in empty:
                made = _listing(plan, last, turn, now, bounds, priors)
                if isinstance(made, Listing):
                    listings.append(made)
                else:
                    skipped.append(Skipped(plan.name, made))
    return listings, skipped


def _listing(
    plan: SeriesPlan, last: LatestRound, turn: Turn, now: int, bounds: ListingBounds, priors: Priors
) -> Listing | str:
    """Return the market to list for a turn, or the rule that this market would break."""
    value = last.answer
    design = design_of(plan.series, plan.feed, value, plan.position)
    if design.kind is MarketKind.RANGE and not rises(design.bounds):
        return "its value is too small for distinct ranges"
    try:
        spec = MarketSpec(
            kind=design.kind,
            opens_at=now,
            closes_at=turn.closes_at,
            ends_at=turn.ends_at,
            weights=_weights(design, value, turn, now, bounds, priors, plan.feed.terms.pot_cap),
            start_at=turn.begins_at if design.kind is MarketKind.DIRECTION else 0,
            target=design.target,
            bounds=design.bounds,
            early_resolvable=design.early_resolvable,
        )
        terms = listing_terms(spec, plan.feed.terms, bounds, now)
    except ValueError as problem:  # Unlistable, or weights outside the Safe's bounds
        return str(problem)
    age = now - last.updated_at
    if not plan.feed.terms.step and age > terms.max_age:  # pool-feed readings are recorded when needed
        return f"its feed's last value is {age} s old; values older than {terms.max_age} s cannot decide a market"
    if plan.feed.terms.pot_cap < len(spec.weights) * MIN_STAKE:
        return f"its feed's pot cap is below the minimum stake on each of {len(spec.weights)} outcomes"
    text = draft_document(Specification.from_listing(spec, bytes_of(plan.feed.address), terms), plan.feed.key)
    return Listing(turn.slot, plan.feed, spec, text.question, Metadata(text.id, str(plan.series)))


def _weights(
    design: Design, value: int, turn: Turn, now: int, bounds: ListingBounds, priors: Priors, pot_cap: int
) -> tuple[int, ...]:
    """Return the weights for the current value, within the Safe's bounds. Their sum is at most the pot cap: weights
    larger than all the money in the market would freeze its prices."""
    outcomes = len(design.bounds) + 1 if design.kind is MarketKind.RANGE else 2
    average = min(max(min(priors.average, pot_cap // outcomes), bounds.min_weight), bounds.max_weight)  # down
    return weights_for(
        design.kind,
        outcomes,
        WeightBounds(bounds.min_weight, bounds.max_weight, average),
        value=value,
        seconds=turn.ends_at - now,
        volatility=priors.volatility,
        target=design.target,
        bounds=design.bounds,
        early_seconds=turn.begins_at - now if design.early_resolvable else None,
    )


def _doubt(last: LatestRound | None, now: int) -> str | None:
    """Return why a feed's newest round does not allow a listing, or None if it does."""
    if last is None:
        return "its feed has no value yet"
    if last.answer <= 0:
        return "its feed's last reading is invalid"
    age = now - last.updated_at
    return f"its feed's last value is {age} s old" if age > FRESH_SECONDS else None


# ---------------------------------------------------------------- the jobs


RETRY = RetryWaits(after_success_seconds=600.0, after_failure_seconds=20.0)
LAST_CALL_SECONDS = 15
"""The relayer drops a listing that is not mined this long before its bets end."""

MARKETS = agent_market.c


async def list_series(run: JobRun) -> None:
    if not run.default(run.keeper.how.list_series, local=True, live=False):
        run.report.skip("everything", "VPM_KEEPER_LIST_SERIES is not set, and this is not a local deployment")
        return
    if await _listing_is_blocked(run):
        return
    bounds, feeds = await _read_terms(run)
    await _list(run, bounds, feeds, standing_plans(feeds))


async def list_rounds(run: JobRun) -> None:
    if await _listing_is_blocked(run):
        return
    bounds, feeds = await _read_terms(run)
    plans = round_plans(feeds, run.keeper.how.round_seconds, quick=run.chain.is_local)
    await _list(run, bounds, feeds, plans)


async def _listing_is_blocked(run: JobRun) -> bool:
    return run.skip_if(run.index_problem() or await run.lanes_problem(LISTER))


async def _read_terms(run: JobRun) -> tuple[ListingBounds, list[Feed]]:
    """Read the lister's bounds and the feeds that markets may be listed on, in one request."""
    lister = run.chain.contract("AgentLister")
    sources = run.chain.deployment.agent_feeds
    calls = [lister.call("bounds")]
    for each in sources:
        feed = run.chain.at(each.address, "ObservationFeed")
        calls += [lister.call("feed", each.address), lister.call("openOn", each.address), feed.call("latestRoundData")]
    bounds, *answers = await run.read_all(calls)
    feeds = []
    for source, terms, open_on, newest in zip(sources, answers[::3], answers[1::3], answers[2::3], strict=True):
        answer, reserved = values([terms, open_on])  # the lister's views never revert
        if answer["condemned"] or not answer["allowed"]:
            why = "the Safe has condemned its feed" if answer["condemned"] else "the Safe does not allow its feed"
            run.report.skip(source.key, why)
        elif not await supports_its_cap(run, source.key):
            run.report.skip(source.key, f"its pools support too little of its cap; {CAP_REMEDY}")
        else:
            known = from_answer(FeedTerms, answer)
            feeds.append(Feed(source.key, source.address, known, round_of(newest), reserved))
    return from_answer(ListingBounds, *values([bounds])), feeds


async def _filled(run: JobRun) -> set[Slot]:
    """Return the slots of all markets that have not ended, no matter who listed them."""
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


CAP_REMEDY = "listing resumes when they support more, or when the Safe sets a smaller cap (ape run allow_feed)"

REMEDIES = {
    "supply moved": "; a feed's supply is fixed: deploy a feed with the new supply and have the Safe allow it",
    "pool is shallow": "; listing resumes when half of the reference liquidity is back",
    "pool is quiet": "; listing resumes after the next trade in the pool",
    "ring too short": "; enlarge the pool's observation ring, or let agent-record do it",
}
"""What to do about contract errors, by a part of their text."""


async def _list(run: JobRun, bounds: ListingBounds, feeds: Sequence[Feed], plans: Iterable[SeriesPlan]) -> None:
    volatility = YEARLY_VOLATILITY if run.chain.is_local else VOLATILITY
    priors = Priors(run.keeper.how.weight_units, volatility)
    listings, skipped = decide(plans, await _filled(run), run.now, bounds, priors)
    run.report.skipped += skipped
    await run.wait_reasons([each.slot.subject for each in listings], RETRY)
    rooms = {feed.address: feed.terms.feed_cap - feed.reserved for feed in feeds}
    left = {feed.key: max(0, rooms[feed.address] // feed.terms.pot_cap) for feed in feeds}  # down
    metrics.set_by_feed(metrics.FEED_ROOM, left)
    for each in listings:
        feed = each.feed
        if rooms[feed.address] < feed.terms.pot_cap:
            run.report.skip(each.id, "the unsettled markets on its feed leave no room under the feed's cap")
        elif await _ask(run, each):
            rooms[feed.address] -= feed.terms.pot_cap


async def _ask(run: JobRun, listing: Listing) -> bool:
    """Submit a listing if the contract would accept it now, and return whether it would."""
    lister = run.chain.contract("AgentLister", "SettlementWallet", "FeedResolver", "PoolFeed")
    revert_reason = await run.revert_reason(lister.call("preview", listing.arguments()))
    if revert_reason is not None:
        remedy = next((each for name, each in REMEDIES.items() if name in revert_reason), "")
        run.report.skip(listing.id, revert_reason + remedy)
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
    await run.submit(request, RETRY)
    return True
