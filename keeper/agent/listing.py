"""Which of the standing series' slots are empty, and what fills them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from core.agent.book import MIN_STAKE, ListingBounds, MarketSpec, listing_terms
from core.agent.document import Metadata, Specification, rendered
from core.chain import checksum
from core.contracts.names import under
from core.contracts.statuses import MarketKind
from core.hexadecimal import bytes_of
from keeper.agent.prior import WeightBounds, weights_for
from keeper.agent.series import (
    HOUR,
    QUICK_SECONDS,
    Design,
    Feed,
    Series,
    Slot,
    Turn,
    design_of,
    open_turns,
    rises,
    round_length,
)
from keeper.report import Skipped
from keeper.sources.sample import LatestRound

STANDING = (Series.TOUCH, Series.DAY, Series.FAR, Series.LADDER)
FRESH_SECONDS = 900
"""A market is listed on a feed only if its value is at most this old. One that nobody posts to would give every stake
back."""


@dataclass(frozen=True, slots=True)
class Priors:
    """How weights are made: units an outcome on average, and the volatility of a year, 1 being a hundred percent."""

    average: int
    volatility: float


_CHOSEN = ("kind", "target", "bounds", "earlyResolvable", "opensAt", "closesAt", "startAt", "endsAt", "weights")


@dataclass(frozen=True, slots=True)
class Listing:
    """A market to list: what it fills, and all that the contract and the log are given."""

    slot: Slot
    feed: Feed
    spec: MarketSpec
    question: str
    metadata: Metadata

    @property
    def id(self) -> str:
        return self.metadata.id

    def arguments(self) -> dict[str, object]:
        """MarketSpec by component name."""
        return {"feed": checksum(self.feed.address), **under(self.spec, *_CHOSEN)}


@dataclass(frozen=True, slots=True)
class SeriesPlan:
    """A series of a feed, what the feed says now, and which ladder is its own."""

    series: Series
    feed: Feed
    last: LatestRound | None
    position: int = 0
    round_seconds: int = HOUR

    @property
    def name(self) -> str:
        return f"{self.feed.key} {self.series}"


def standing_plans(feeds: Sequence[Feed], latest: Sequence[LatestRound | None]) -> list[SeriesPlan]:
    """Threshold and ladder markets. `latest` is each feed's newest round."""
    return [
        SeriesPlan(series, feed, last, position)
        for position, (feed, last) in enumerate(zip(feeds, latest, strict=True))
        for series in STANDING
    ]


def round_plans(
    feeds: Sequence[Feed], latest: Sequence[LatestRound | None], seconds: int, *, quick: bool
) -> list[SeriesPlan]:
    """Up/down rounds of every feed and, if `quick`, short ones of the first that is quick enough for them: of one that
    nobody posts to, if there is one, since no dispute window follows on its rounds."""
    plans = [
        SeriesPlan(Series.HOUR, feed, last, round_seconds=seconds) for feed, last in zip(feeds, latest, strict=True)
    ]
    if quick:
        able = [
            plan
            for plan in plans
            if round_length(plan.feed, QUICK_SECONDS) == QUICK_SECONDS != round_length(plan.feed, seconds)
        ]
        able.sort(key=lambda plan: plan.feed.terms.published)  # stable: else in the order of the feeds
        plans += [SeriesPlan(Series.QUICK, each.feed, each.last, round_seconds=QUICK_SECONDS) for each in able[:1]]
    return plans


def decide(
    plans: Iterable[SeriesPlan], filled: Set[Slot], now: int, bounds: ListingBounds, priors: Priors
) -> tuple[list[Listing], list[Skipped]]:
    """Return what to list now."""
    listings: list[Listing] = []
    skipped: list[Skipped] = []
    for plan in plans:
        if plan.series in STANDING and plan.feed.metric != "market_cap":
            skipped.append(Skipped(plan.name, f"its series are about market caps, not {plan.feed.metric}"))
            continue
        empty = [
            turn for turn in open_turns(plan.series, plan.feed, now, plan.round_seconds) if turn.slot not in filled
        ]
        doubt = _doubt(plan.last, now)
        if not empty:
            skipped.append(Skipped(plan.name, "it is listed"))
        elif plan.last is None or doubt is not None:
            skipped.append(Skipped(plan.name, str(doubt)))
        else:
            for turn in empty:
                made = _listing(plan, plan.last, turn, now, bounds, priors)
                if isinstance(made, Listing):
                    listings.append(made)
                else:
                    skipped.append(Skipped(plan.name, made))
    return listings, skipped


def _listing(
    plan: SeriesPlan, last: LatestRound, turn: Turn, now: int, bounds: ListingBounds, priors: Priors
) -> Listing | str:
    """A market for a turn, or the rule it would break."""
    value = last.answer
    design = design_of(plan.series, plan.feed, value, plan.position)
    if design.kind is MarketKind.RANGE and not rises(design.bounds):
        return "its value is too small for ranges of their own"
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
    except ValueError as problem:  # Unlistable, or weights for which the Safe's bounds have no room
        return str(problem)
    age = now - last.updated_at
    if not plan.feed.terms.step and age > terms.max_age:  # a grid's readings are recorded when they are needed
        return f"its feed's last value is {age} s old, and one older than {terms.max_age} s would decide nothing"
    if plan.feed.terms.pot_cap < len(spec.weights) * MIN_STAKE:
        return f"its feed lets a market hold too little for the least stake on each of {len(spec.weights)} outcomes"
    words = rendered(Specification.of_listing(spec, bytes_of(plan.feed.address), terms), plan.feed.key)
    return Listing(turn.slot, plan.feed, spec, words.question, Metadata(words.id, str(plan.series)))


def _weights(
    design: Design, value: int, turn: Turn, now: int, bounds: ListingBounds, priors: Priors, pot_cap: int
) -> tuple[int, ...]:
    """Return the prior by the present value, within the Safe's bounds. Virtual weights that outweigh all the money
    there may be would keep its prices where they are, so they add up to the pot cap at most."""
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
    """Return why no market is listed on a feed with this newest round, or None."""
    if last is None:
        return "its feed has no value yet"
    if last.answer <= 0:
        return "its feed's last reading is not good"
    age = now - last.updated_at
    return f"its feed's last value is {age} s old" if age > FRESH_SECONDS else None
