"""A market's body when the chain could not be asked yet: what may be null, and in which phase."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from api.head import Head
from api.stock import words
from api.stock.bodies import MarketBody
from api.stock.facts import ListedMarket, MarketReadings, MarketResult, MarketsSnapshot, Oracle, Phase
from api.stock.market_view import detail_body, has_stale_feed, listed_body
from api.web import figures
from core.contracts.statuses import StockOutcome, StockReason
from core.feeds.rounds import Round
from core.stock.vested import Book, Terms, VestedMarket
from tests.support.bodies import hold

USDG = 10**6
LAST_WRITTEN = 253_402_300_799
STRIKE, FINAL, DAY = 1_000_000, 1_003_600, 86_400
FEED = "0x" + "11" * 20


OPENER = "0x" + "44" * 20


def market_of(*, voided: bool) -> VestedMarket:
    terms = Terms(
        market_id=1,
        opener=OPENER,
        resolver="0x" + "77" * 20,
        freeze_time=FINAL,
        void_delay=3 * DAY,
        fee_bps=200,
        kappa=10**17,
        seed_per_leg=10 * USDG,
        min_entry=USDG,
        max_entry=100 * USDG,
        side_cap=2**48 - 1,
    )
    return VestedMarket(terms, (Book(10 * USDG, 0), Book(10 * USDG, 0)), voided=voided)


def listed(market: VestedMarket, result: MarketResult | None = None) -> ListedMarket:
    return ListedMarket(
        id=1,
        ticker="NVDA",
        family=0,
        feed=FEED,
        stock_token="0x" + "22" * 20,
        spec_id="0x" + "33" * 32,
        opener=OPENER,
        strike_time=STRIKE,
        final_time=FINAL,
        max_strike_age=3600,
        max_final_age=3600,
        opened_at=STRIKE - DAY,
        opened_tx="0x" + "55" * 32,
        market=market,
        positions=2,
        result=result,
        version=(0, 1),
    )


def snapshot_at(now: int, markets: dict[int, ListedMarket] | None = None) -> MarketsSnapshot:
    return MarketsSnapshot(Head(1, now, now, l1_number=1), False, 0, 0, markets or {})


@pytest.mark.parametrize(
    ("now", "phase"),
    [(STRIKE - 1, Phase.OPENS), (STRIKE, Phase.LIVE), (FINAL, Phase.FROZEN), (FINAL + 3 * DAY, Phase.VOID)],
)
@pytest.mark.parametrize(
    "oracle",
    [
        Oracle(),
        Oracle(readings={1: MarketReadings(strike_problem=1, final_problem=1)}),
        Oracle(latest={FEED: Round(7, 187_40000000, STRIKE - 60)}),
        Oracle(latest={FEED: Round(7, 0, STRIKE - 60)}, readings={1: MarketReadings(strike=Round(7, 0, STRIKE - 60))}),
    ],
)
def test_strike_live_and_change_are_null_only_before_the_strike(now: int, phase: Phase, oracle: Oracle) -> None:
    market, settlement = market_of(voided=phase is Phase.VOID), None
    if phase is Phase.VOID:  # by the timeout, which needs no round
        settlement = MarketResult(None, None, None, None, "0x" + "66" * 32, now)
    snapshot = snapshot_at(now)
    body = hold(MarketBody, msgspec.to_builtins(listed_body(listed(market, settlement), snapshot, oracle)))
    assert body.phase == phase
    known = FEED in oracle.latest
    if phase is Phase.OPENS:
        assert [each is None for each in (body.strike, body.live)] == [not known] * 2
        assert known or body.strike_problem
    else:
        assert None not in (body.strike, body.live, body.change)
        assert body.strike_problem


@pytest.mark.parametrize("final", [LAST_WRITTEN, LAST_WRITTEN + 1, 2**40 - 1])
def test_a_market_of_a_time_no_calendar_has_is_listed_with_the_others(final: int) -> None:
    """The contracts take any time of 40 bits; one such market must not take the list from everybody."""
    market = market_of(voided=False)
    market = replace(market, terms=msgspec.structs.replace(market.terms, freeze_time=final))
    entry = replace(listed(market), strike_time=final - 3600, final_time=final)
    snapshot = snapshot_at(STRIKE)
    body = hold(MarketBody, msgspec.to_builtins(listed_body(entry, snapshot, Oracle())))
    assert body.final_time == final
    assert ("31 Dec 9999 23:59:59 UTC" if final == LAST_WRITTEN else f"Unix second {final}") in body.question
    assert figures.clock(final)
    assert figures.short_clock(final)
    assert figures.until(final, STRIKE)


def test_quotes_rest_on_what_markets_of_the_family_took() -> None:
    took = replace(market_of(voided=True), books=(Book(30 * USDG, 0), Book(30 * USDG, 0)))
    ended = MarketResult(None, None, None, None, "0x" + "66" * 32, STRIKE - DAY)
    others = {n: replace(listed(took, ended), id=n) for n in range(2, 24)}
    rich = replace(took, books=(Book(10**12, 0), Book(10**12, 0)))
    others |= {n: replace(listed(rich, ended), id=n, family=1) for n in range(24, 60)}
    others[60] = replace(listed(rich), id=60)
    market = listed(market_of(voided=False))

    def usual(markets: dict[int, ListedMarket], now: int) -> tuple[str, int, int]:
        quotes = listed_body(market, snapshot_at(now, markets), Oracle()).quotes
        return quotes.rests_on.usual_volume, quotes.rests_on.settled_markets, len(quotes.bets)

    assert usual(others, STRIKE - 1) == (str(40 * USDG), 20, 6)
    assert usual({}, STRIKE - 1) == (str(1_050 * USDG), 0, 6)
    assert usual(others, FINAL) == (str(40 * USDG), 20, 0)


@pytest.mark.parametrize(("now", "phase"), [(STRIKE - 1, Phase.OPENS), (STRIKE, Phase.LIVE), (FINAL, Phase.FROZEN)])
def test_a_market_on_a_feed_that_cannot_be_read_says_so(now: int, phase: Phase) -> None:
    last = Round(7, 187_40000000, STRIKE - 60)
    sound = Oracle(latest={FEED: last}, readings={1: MarketReadings(strike=last)})
    broken = replace(sound, unreadable=frozenset({FEED}))
    snapshot = snapshot_at(now)
    for oracle, is_stale in ((sound, False), (broken, True)):
        body = detail_body(listed(market_of(voided=False)), snapshot, oracle, [], read_at=now, stale=False)
        assert body.market.phase == phase
        assert body.market.live is not None
        assert body.stale is is_stale
        assert has_stale_feed(body.market, oracle) is is_stale
        if phase is Phase.OPENS:
            assert (body.market.strike_problem is not None) is is_stale


def test_a_settled_market_does_not_depend_on_its_feed() -> None:
    market = market_of(voided=True)
    settlement = MarketResult(None, None, None, None, "0x" + "66" * 32, FINAL)
    now, oracle = FINAL + 3 * DAY, Oracle(unreadable=frozenset({FEED}))
    snapshot = snapshot_at(now)
    assert not detail_body(listed(market, settlement), snapshot, oracle, [], read_at=now, stale=False).stale


@pytest.mark.parametrize(
    ("reason", "word", "name"),
    [
        (StockReason.STALE, "stale", "STALE"),
        (StockReason.OUTAGE, "stale", "STALE"),
        (StockReason.PAUSED, "paused", "PAUSED"),
        (StockReason.MULTIPLIER, "paused", "PAUSED"),
    ],
)
def test_a_market_that_was_interrupted_says_by_what(reason: StockReason, word: str, name: str) -> None:
    """In the specification's words; `detail` distinguishes those that share one."""
    strike, final = Round(7, 187_40000000, STRIKE - 60), Round(8, 188_40000000, FINAL - 60)
    settlement = MarketResult(int(StockOutcome.VOID), int(reason), strike, final, "0x" + "66" * 32, FINAL + 200)
    now = FINAL + DAY
    snapshot = snapshot_at(now)
    entry = listed(market_of(voided=True), settlement)
    body = detail_body(entry, snapshot, Oracle(), [], read_at=now, stale=False)
    assert body.resolution is not None
    assert body.preview is not None
    assert body.finder is not None
    assert (body.resolution.outcome, body.resolution.reason, body.preview.name) == ("VOID", word, name)
    assert (body.resolution.strike_round, body.resolution.final_round) == ("7", "8")
    assert body.finder.expected == "VOID"  # the rounds alone would say UP


def test_a_problem_that_the_finder_does_not_count_is_unknown_and_not_missing() -> None:
    assert [words.problem(code) for code in (0, 6)] == ["the reading is missing", "unknown"]
