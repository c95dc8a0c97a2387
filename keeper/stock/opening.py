"""Which markets to list: every allowed feed's windows that are not listed yet, as far as the opener's money goes.

Windows follow from New York's sessions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime

from core.contracts.statuses import Family
from core.stock.sessions import Session, weeks
from core.stock.settling import REFUND_DRILL_AGE_SECONDS
from keeper.report import Skipped

MIN_LEAD_SECONDS = 60
"""A market listed later than this before its strike would strike before anybody saw it."""


@dataclass(frozen=True, slots=True)
class MarketWindow:
    """What a market compares: the reading at `strike` with the one at `final`."""

    family: Family
    strike: int
    final: int


@dataclass(frozen=True, slots=True)
class NotNow:
    """Why a family has no window to list now."""

    family: Family
    reason: str


def daily_window(sessions: Sequence[Session], now: int, lead: int) -> MarketWindow | NotNow:
    """Return the next session, open to close, once it is at most `lead` away."""
    coming = next((each for each in sessions if each.opens - now >= MIN_LEAD_SECONDS), None)
    return _listed_from(Family.DAILY, coming, coming, now, lead)


def weekly_window(sessions: Sequence[Session], now: int, lead: int) -> MarketWindow | NotNow:
    """Return the next week whose first bell has not rung: its first open to its last close."""
    for week in weeks(sessions):
        if week[0].opens - now >= MIN_LEAD_SECONDS:
            return _listed_from(Family.WEEKLY, week[0], week[-1], now, lead)
    return NotNow(Family.WEEKLY, "the calendar holds no week that is still to begin")


def _listed_from(
    family: Family, first: Session | None, last: Session | None, now: int, lead: int
) -> MarketWindow | NotNow:
    if first is None or last is None:
        return NotNow(family, "the calendar holds no session that is still to open")
    if first.opens - now > lead:
        opens, listed = said(first.opens), said(first.opens - lead)
        return NotNow(family, f"the next bell is at {opens}; it is listed from {listed} on")
    return MarketWindow(family, first.opens, last.closes)


def said(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


NOT_AFTER_MARGIN_SECONDS = 5
"""A listing must be mined this long before its strike; the relayer gives it up at that moment."""


@dataclass(frozen=True, slots=True)
class FeedState:
    """A feed of the deployment as the lister knows it now. Ages in seconds."""

    ticker: str
    address: str
    allowed: bool
    max_strike_age: int
    max_final_age: int
    is_paused: bool = False

    @property
    def hindrance(self) -> str | None:
        """Return why the lister would refuse a market on it now, or None."""
        if not self.allowed:
            return f"the lister does not allow the feed {self.address}"
        return "its stock's oracle is paused" if self.is_paused else None


@dataclass(frozen=True, slots=True)
class ListingTerms:
    """What the venue lists with; token units."""

    seed_per_leg: int
    min_entry: int
    max_entry: int


@dataclass(frozen=True, slots=True)
class Opening:
    """One market to list."""

    feed: FeedState
    window: MarketWindow
    max_strike_age: int
    max_final_age: int
    subject: str

    @property
    def target(self) -> str:
        return f"{self.feed.ticker} {self.window.family.word} {said(self.window.strike)}"


ListedKey = tuple[str, int, int, int]
"""Feed address in lower case, family, strike and final time."""


def listed_key(feed: str, window: MarketWindow) -> ListedKey:
    return feed.lower(), int(window.family), window.strike, window.final


def decide_openings(
    feeds: Sequence[FeedState], windows: Sequence[MarketWindow | NotNow], listed: Set[ListedKey]
) -> tuple[list[Opening], list[Skipped]]:
    """For every feed and family: an opening, or why there is none. The nearest strike first."""
    openings: list[Opening] = []
    skipped: list[Skipped] = []
    for window in windows:
        if isinstance(window, NotNow):
            skipped.append(Skipped(window.family.word, window.reason))
            continue
        for feed in feeds:
            subject = f"stock:open:{feed.ticker}:{window.family.word}:{window.strike}:{window.final}"
            opening = Opening(feed, window, feed.max_strike_age, feed.max_final_age, subject)
            if feed.hindrance is not None:
                skipped.append(Skipped(opening.target, feed.hindrance))
            elif listed_key(feed.address, window) in listed:
                skipped.append(Skipped(opening.target, "it is listed"))
            else:
                openings.append(opening)
    openings.sort(key=lambda each: (each.window.strike, each.window.final, each.feed.ticker))
    return openings, skipped


@dataclass(frozen=True, slots=True)
class Purse:
    """The opener's token balance and what the lister may take of it; token units."""

    balance: int
    allowance: int


def opener_of(lanes: Sequence[str], named: str | None) -> str:
    """Whose seeds they are: the key of the opener's lane. Of several the one that the deployment file names, or else
    the newest; at least one, oldest first."""
    of_file = [each for each in lanes if named is not None and each.lower() == named.lower()]
    return (of_file or lanes)[-1]


def affordable(
    openings: Sequence[Opening], terms: ListingTerms, purse: Purse
) -> tuple[list[Opening], list[Skipped], int | None]:
    """Return the openings whose seeds the balance covers, those it does not, and the allowance to ask for (None:
    enough)."""
    each = 2 * terms.seed_per_leg
    count = min(len(openings), purse.balance // each)  # down: half a seed opens nothing
    short = [
        Skipped(opening.target, f"the opener holds {purse.balance} units, too few for its seed of {each}")
        for opening in openings[count:]
    ]
    needed = count * each
    allowance = None if purse.allowance >= needed else max(needed, purse.balance)
    return list(openings[:count]), short, allowance


# ---------------------------------------------------------------- short markets


@dataclass(frozen=True, slots=True)
class DrillPlan:
    """The life of a short market, in seconds from its listing."""

    lead: int = 120
    life: int = 300
    apart: int = 45


def decide_drills(
    feeds: Sequence[FeedState], last_final: Mapping[str, int], last_opened: int | None, now: int, plan: DrillPlan
) -> tuple[Opening | None, list[Skipped]]:
    """Return the next short market to open: of the ticker that has been without one for longest, one at a time.

    last_final: per feed address in lower case, the latest bell of a short market. last_opened: when any was listed.
    Opening them `apart` keeps them in different phases, so at any moment one can be seen in each.
    """
    skipped: list[Skipped] = []
    wanting: list[tuple[int, str, FeedState]] = []
    for feed in feeds:
        final = last_final.get(feed.address.lower(), 0)
        if feed.hindrance is not None:
            skipped.append(Skipped(f"{feed.ticker} drill", feed.hindrance))
        elif final > now:
            skipped.append(Skipped(f"{feed.ticker} drill", f"one is under way until {said(final)}"))
        else:
            wanting.append((final, feed.ticker, feed))
    if not wanting:
        return None, skipped
    if last_opened is not None and 0 <= now - last_opened < plan.apart:
        wait = plan.apart - (now - last_opened)
        return None, skipped + [Skipped(f"{ticker} drill", f"its turn comes in {wait} s") for _, ticker, _ in wanting]
    wanting.sort(key=lambda each: each[:2])
    feed = wanting[0][2]
    skipped += [Skipped(f"{ticker} drill", "another ticker's is opened first") for _, ticker, _ in wanting[1:]]
    window = MarketWindow(Family.DRILL, now + plan.lead, now + plan.lead + plan.life)
    # By ticker, not by time: two keepers that look a second apart must ask for the same thing.
    return Opening(feed, window, feed.max_strike_age, feed.max_final_age, f"stock:drill:{feed.ticker}"), skipped


def refund_drill(feed: FeedState, now: int, plan: DrillPlan) -> Opening:
    """A short market that will provably be void: no round is young enough for it, so every stake goes back."""
    window = MarketWindow(Family.DRILL, now + plan.lead, now + plan.lead + plan.life)
    return Opening(feed, window, REFUND_DRILL_AGE_SECONDS, REFUND_DRILL_AGE_SECONDS, "stock:refund-drill")
