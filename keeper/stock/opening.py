"""`open`: lists each allowed ticker's daily and weekly market before the opening bell, as far as the opener's balance
allows. `drill`: keeps short markets running on local deployments. `refund-drill`: on demand, lists a short market that
is certain to be void."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import func, select

from core.chain import Contract, RpcError, values
from core.contracts.abi import abi
from core.contracts.statuses import Family
from core.db.schema.index_stock import stock_market
from core.hexadecimal import hex_of
from core.outbox import OPENER
from core.stock.sessions import Session, sessions_around, weeks
from core.stock.settling import REFUND_DRILL_AGE_SECONDS
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun, Skipped
from keeper.stock.witness import VIEW_ERRORS

MIN_LEAD_SECONDS = 60
"""The shortest time between listing and strike, so that people can see the market first."""


@dataclass(frozen=True, slots=True)
class MarketWindow:
    """A market's period: the reading at `strike` is compared with the one at `final`."""

    family: Family
    strike: int
    final: int


def daily_window(sessions: Sequence[Session], now: int, lead: int) -> MarketWindow | Skipped:
    """Return the next session's window if it opens within `lead`, or why its market is not listed."""
    coming = next((each for each in sessions if each.opens - now >= MIN_LEAD_SECONDS), None)
    return _listed_from(Family.DAILY, coming, coming, now, lead)


def weekly_window(sessions: Sequence[Session], now: int, lead: int) -> MarketWindow | Skipped:
    """Return the window of the next week that has not opened yet, from first open to last close, or why its market is
    not listed."""
    for week in weeks(sessions):
        if week[0].opens - now >= MIN_LEAD_SECONDS:
            return _listed_from(Family.WEEKLY, week[0], week[-1], now, lead)
    return Skipped(Family.WEEKLY.word, "the calendar has no upcoming week")


def _listed_from(
    family: Family, first: Session | None, last: Session | None, now: int, lead: int
) -> MarketWindow | Skipped:
    if first is None or last is None:
        return Skipped(family.word, "the calendar has no upcoming session")
    if first.opens - now > lead:
        opens, listed = utc_text(first.opens), utc_text(first.opens - lead)
        return Skipped(family.word, f"the next session opens at {opens}; it is listed from {listed} on")
    return MarketWindow(family, first.opens, last.closes)


def utc_text(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


NOT_AFTER_MARGIN_SECONDS = 5
"""The relayer drops a listing that is not mined this long before its strike."""


@dataclass(frozen=True, slots=True)
class FeedState:
    """A feed with the lister's current settings. Ages are in seconds."""

    ticker: str
    address: str
    allowed: bool
    max_strike_age: int
    max_final_age: int
    is_paused: bool = False

    @property
    def obstacle(self) -> str | None:
        if not self.allowed:
            return f"the lister does not allow the feed {self.address}"
        return "its stock's oracle is paused" if self.is_paused else None


@dataclass(frozen=True, slots=True)
class Opening:
    feed: FeedState
    window: MarketWindow
    subject: str

    @property
    def target(self) -> str:
        return f"{self.feed.ticker} {self.window.family.word} {utc_text(self.window.strike)}"


ListedKey = tuple[str, int, int, int]
"""Feed address in lower case, family, strike and final time."""


def listed_key(feed: str, window: MarketWindow) -> ListedKey:
    return feed.lower(), int(window.family), window.strike, window.final


def decide_openings(
    feeds: Sequence[FeedState], windows: Sequence[MarketWindow | Skipped], listed: Set[ListedKey]
) -> tuple[list[Opening], list[Skipped]]:
    """Return the markets to open, earliest strike first, and the skipped windows with their reasons."""
    openings: list[Opening] = []
    skipped: list[Skipped] = []
    for window in windows:
        if isinstance(window, Skipped):
            skipped.append(window)
            continue
        for feed in feeds:
            subject = f"stock:open:{feed.ticker}:{window.family.word}:{window.strike}:{window.final}"
            opening = Opening(feed, window, subject)
            if feed.obstacle is not None:
                skipped.append(Skipped(opening.target, feed.obstacle))
            elif listed_key(feed.address, window) in listed:
                skipped.append(Skipped(opening.target, "already listed"))
            else:
                openings.append(opening)
    openings.sort(key=lambda each: (each.window.strike, each.window.final, each.feed.ticker))
    return openings, skipped


def opener_of(lanes: Sequence[str], named: str | None) -> str:
    """Return the address that pays the seeds. This is the lane that the deployment file names or, if it names none of
    these lanes, the newest lane. `lanes` is not empty and starts with the oldest."""
    of_file = [each for each in lanes if named is not None and each.lower() == named.lower()]
    return (of_file or lanes)[-1]


def affordable(
    openings: Sequence[Opening], seed_per_leg: int, balance: int, allowance: int
) -> tuple[list[Opening], list[Skipped], int | None]:
    """Return the openings whose seeds the opener's balance covers, the others as skipped, and the allowance to approve.
    The allowance is None if the lister's current `allowance` is enough."""
    each = 2 * seed_per_leg
    count = min(len(openings), balance // each)  # down: half a seed opens nothing
    short = [
        Skipped(opening.target, f"the opener has only {balance} units; its seed needs {each}")
        for opening in openings[count:]
    ]
    needed = count * each
    return list(openings[:count]), short, None if allowance >= needed else max(needed, balance)


# ---------------------------------------------------------------- short markets


DRILL_LEAD_SECONDS, DRILL_SECONDS = 120, 300
"""From the listing of a short market to its strike, and from there to its close."""
DRILLS_APART_SECONDS = 45
"""The time between two listings, so that at any moment there is a short market in each phase."""


def drill_window(now: int) -> MarketWindow:
    strike = now + DRILL_LEAD_SECONDS
    return MarketWindow(Family.DRILL, strike, strike + DRILL_SECONDS)


def decide_drills(
    feeds: Sequence[FeedState], last_final: Mapping[str, int], last_opened: int | None, now: int
) -> tuple[Opening | None, list[Skipped]]:
    """Return the next short market to open, and the skipped tickers with the reasons. The market is on the ticker that
    has been without a short market for longest.

    `last_final` has the latest close of a short market, by feed address in lower case; `last_opened` is when the newest
    one was listed.
    """
    skipped: list[Skipped] = []
    wanting: list[tuple[int, str, FeedState]] = []
    for feed in feeds:
        final = last_final.get(feed.address.lower(), 0)
        if feed.obstacle is not None:
            skipped.append(Skipped(f"{feed.ticker} drill", feed.obstacle))
        elif final > now:
            skipped.append(Skipped(f"{feed.ticker} drill", f"its short market is open until {utc_text(final)}"))
        else:
            wanting.append((final, feed.ticker, feed))
    if not wanting:
        return None, skipped
    if last_opened is not None and 0 <= now - last_opened < DRILLS_APART_SECONDS:
        wait = DRILLS_APART_SECONDS - (now - last_opened)
        return None, skipped + [Skipped(f"{ticker} drill", f"its turn comes in {wait} s") for _, ticker, _ in wanting]
    wanting.sort(key=lambda each: each[:2])
    feed = wanting[0][2]
    skipped += [Skipped(f"{ticker} drill", "another ticker's market is opened first") for _, ticker, _ in wanting[1:]]
    # The subject has no time, so that two keepers that run a second apart submit the same subject.
    return Opening(feed, drill_window(now), f"stock:drill:{feed.ticker}"), skipped


def refund_drill(feed: FeedState, now: int) -> Opening:
    """Return a short market that is certain to be void, because no round will be fresh enough for it."""
    feed = replace(feed, max_strike_age=REFUND_DRILL_AGE_SECONDS, max_final_age=REFUND_DRILL_AGE_SECONDS)
    return Opening(feed, drill_window(now), "stock:refund-drill")


# ---------------------------------------------------------------- the jobs


RETRY = RetryWaits(after_success_seconds=600.0)
DRILL_RETRY = RetryWaits(after_success_seconds=0.0, longest_seconds=120.0)
LISTED_SINCE_SECONDS = 30 * 86_400

MARKETS = stock_market.c


async def open_markets(run: JobRun) -> None:
    feeds = await _listable_feeds(run)
    if feeds is None:
        return
    how, sessions = run.keeper.how, sessions_around(run.now)
    windows = [
        daily_window(sessions, run.now, how.daily_lead_seconds),
        weekly_window(sessions, run.now, how.weekly_lead_seconds),
    ]
    openings, skipped = decide_openings(feeds, windows, await _listed(run))
    run.report.skipped += skipped
    await _open(run, openings, RETRY)


async def open_drills(run: JobRun) -> None:
    feeds = await _listable_feeds(run)
    if feeds is None:
        return
    finals, last_opened = await _drills(run)
    opening, skipped = decide_drills(feeds, finals, last_opened, run.now)
    run.report.skipped += skipped
    if opening is not None:
        await _open(run, [opening], DRILL_RETRY)


async def open_refund_drill(run: JobRun) -> None:
    feeds = await _listable_feeds(run)
    if feeds is None:
        return
    allowed = [feed for feed in feeds if feed.obstacle is None]
    if not allowed:
        run.report.skip("refund drill", "the lister allows no feed, or all oracles are paused")
        return
    await _open(run, [refund_drill(allowed[0], run.now)], DRILL_RETRY)


async def _listable_feeds(run: JobRun) -> list[FeedState] | None:
    """Return the feeds with the lister's settings. If nothing may be listed now, report why and return None."""
    if run.skip_if(run.index_problem() or await run.lanes_problem(OPENER)):
        return None
    lister, feeds = run.chain.contract("MarketLister"), run.chain.deployment.price_feeds
    calls = [run.chain.contract("VestedMarkets").call("entriesPaused")]
    calls += [lister.call("feed", feed.proxy) for feed in feeds]
    calls += [Contract(feed.stock_token, abi("LocalStockToken")).call("oraclePaused") for feed in feeds]
    all_answers = await run.read_all(calls, VIEW_ERRORS)
    entries_paused, *answers = values(all_answers[: 1 + len(feeds)])  # the stock tokens' views may fail, these may not
    if run.skip_if("the guardian has paused new markets" if entries_paused else None):
        return None
    return [
        FeedState(
            ticker=feed.ticker,
            address=feed.proxy,
            allowed=answer["allowed"],
            max_strike_age=min(answer["maxStrikeAge"], feed.max_strike_age_seconds),
            max_final_age=min(answer["maxFinalAge"], feed.max_final_age_seconds),
            is_paused=isinstance(flag, RpcError) or bool(flag),
        )
        for feed, answer, flag in zip(feeds, answers, all_answers[1 + len(feeds) :], strict=True)
    ]


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
    """Submit the openings that the opener can pay for, with an approval before them if one is needed."""
    subjects = await run.ready({each.subject: each.target for each in openings}, retry)
    ready = [each for each in openings if each.subject in subjects]
    if not ready:
        return
    deployment = run.chain.deployment
    openers = [hex_of(lane.address) for lane in await run.lanes(OPENER)]
    if not openers:
        run.report.skip_all([each.target for each in ready], "the opener's lane was just released")
        return
    opener = opener_of(openers, deployment.operator_wallets.get("opener"))
    token = deployment.token("USDG").address
    lister = run.chain.contract("MarketLister", "VestedMarkets", "RoundResolver")
    erc20 = run.chain.at(token, "IERC3009")
    balance, allowance = await run.read_all(
        [erc20.call("balanceOf", opener), erc20.call("allowance", opener, lister.address)]
    )
    seed = deployment.param("seedPerLeg")
    payable, short, approval = affordable(ready, seed, int(str(balance)), int(str(allowance)))
    run.report.skipped += short
    depends_on = None
    if payable and approval is not None:
        call = erc20.call("approve", lister.address, approval)
        request = TransactionRequest(
            kind="approve",
            subjects=(f"stock:approve:{opener.lower()}",),
            target=f"allowance of {opener}",
            detail=f"allow the lister to take seeds of up to {approval} units from the opener",
            group=OPENER,
            call=call,
        )
        action = await run.submit(request, RetryWaits(after_success_seconds=30.0))
        if action is None:
            run.report.skip_all([opening.target for opening in payable], "its seed needs an allowance first")
            return
        depends_on = action.intent_id
    for opening in payable:
        await run.submit(_request(run, opening, depends_on), retry)


def _request(run: JobRun, opening: Opening, depends_on: int | None) -> TransactionRequest:
    window, param = opening.window, run.chain.deployment.param
    call = run.chain.contract("MarketLister").call(
        "open",
        {
            "feed": opening.feed.address,
            "strikeTime": window.strike,
            "finalTime": window.final,
            "maxStrikeAge": opening.feed.max_strike_age,
            "maxFinalAge": opening.feed.max_final_age,
            "seedPerLeg": param("seedPerLeg"),
            "minEntry": param("minEntry"),
            "maxEntry": param("maxEntry"),
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
        replay_safe=False,  # the lister would list the same market again
    )
