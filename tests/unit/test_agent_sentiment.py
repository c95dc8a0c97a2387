"""Sentiment without I/O: the score, labels, confidence, quality and the suggested bet, against their definitions."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.agent.facts import FeedRound, Links, ListedMarket
from api.agent.sentiment import Crowd, intel, market_signals, quality_of, score_of, suggested_bet, symbol_of
from api.problems import Problem
from core.agent.book import Book
from core.agent.fixed import WAD
from core.contracts.statuses import MarketKind
from core.money import USD, to_json
from tests.support.agent_markets import market, snapshot

LINKS = Links("https://example.org", None, "0x" + "aa" * 20)
FEED = "0x" + "bb" * 20
"""Range markets here have the bounds 50M and 100M."""
BELOW, BETWEEN, ABOVE = (FeedRound(value * 10**6 * 10**8, 0, bytes(32)) for value in (10, 80, 100))
CROWD = Crowd(bettors=30, directional_bettors=30, staked=5_000 * USD, largest=100 * USD)


def priced(cents: int, pool: int = 100, kind: MarketKind = MarketKind.THRESHOLD, name: str = "m") -> ListedMarket:
    """Return a market whose first side has this price, from its stakes alone."""
    made = market(name, "X", "?", kind=kind)
    book = replace(
        Book.empty((5 * USD, 5 * USD), 200), net=(pool * cents * USD // 100, pool * (100 - cents) * USD // 100)
    )
    total = book.total_weight
    # The virtual weights pull to the middle; weigh the stakes so that the price comes out as wanted.
    first = total * cents // 100 - 5 * USD
    return replace(made, book=replace(book, net=(first, pool * USD - first)))


def scored(*markets: ListedMarket, latest: FeedRound | None = None, crowd: Crowd = CROWD) -> Any:
    return score_of(market_signals(markets, {} if latest is None else {FEED: latest}), crowd)


def points(score: Any) -> int:
    return int(score.score * 100)


def test_the_score_weighs_markets_by_pool() -> None:
    deep, thin = priced(90, 900, name="deep"), priced(10, 100, name="thin")
    weighted = Fraction(900 * deep.book.price(0) + 100 * thin.book.price(0), 1_000 * WAD)
    score = scored(deep, thin)
    assert points(score) == round(weighted * 10_000) == 8_200
    assert (score.basis, score.directional_market_count, score.directional_pool_usd) == ("pool_weighted", 2, 1_000)


def test_without_pools_markets_have_equal_weight() -> None:
    bare = market("a", "X", "?")
    tilted = market("b", "X", "?", kind=MarketKind.RANGE)  # three buckets, two of them above 10M
    score = scored(bare, tilted, latest=BELOW, crowd=Crowd())
    assert points(score) == round((Fraction(1, 2) + Fraction(2, 3)) / 2 * 10_000) == 5_833
    assert (score.basis, score.confidence, score.directional_pool_usd) == ("equal_weight", "none", 0)


def test_without_a_directional_market_it_is_neutral() -> None:
    unread = market("r", "X", "?", kind=MarketKind.RANGE, pool=500)
    for markets in ((), (unread,)):
        score = scored(*markets)
        assert (points(score), score.label, score.basis, score.confidence) == (5_000, "neutral", "none", "none")
        assert suggested_bet(market_signals(markets, {}), score.score, LINKS) is None


def test_yes_up_and_the_buckets_above_are_bullish() -> None:
    assert scored(priced(70)).score * 100 == 7_000
    assert scored(priced(30, kind=MarketKind.DIRECTION)).score * 100 == 3_000
    ladder = market("r", "X", "?", kind=MarketKind.RANGE, net=(1_000, 2_000, 3_000))
    prices = [ladder.book.price(at) for at in range(3)]
    for latest, above in ((BELOW, prices[1:]), (BETWEEN, prices[2:]), (ABOVE, [])):
        assert scored(ladder, latest=latest).score * 100 == round(Fraction(sum(above), WAD) * 10_000)


@pytest.mark.parametrize(
    ("cents", "label"),
    [
        (80, "strongly_bullish"),
        (79, "bullish"),
        (60, "bullish"),
        (59, "neutral"),
        (41, "neutral"),
        (40, "bearish"),
        (21, "bearish"),
        (20, "strongly_bearish"),
    ],
)
def test_labels_change_at_80_60_40_20(cents: int, label: str) -> None:
    score = scored(priced(cents, 1_000))
    assert (points(score), score.label) == (cents * 100, label)


@pytest.mark.parametrize(
    ("bettors", "pool", "confidence"),
    [
        (20, 1_000, "high"),
        (19, 9_000, "medium"),
        (90, 999, "medium"),
        (5, 100, "medium"),
        (4, 9_000, "low"),
        (90, 99, "low"),
        (1, 1, "low"),
        (0, 0, "none"),
    ],
)
def test_confidence_requires_bettors_and_money(bettors: int, pool: int, confidence: str) -> None:
    crowd = Crowd(bettors=200, directional_bettors=bettors, staked=pool * USD, largest=USD)
    assert scored(market("m", "X", "?", pool=pool), crowd=crowd).confidence == confidence


@pytest.mark.parametrize(
    ("bettors", "largest", "label"),
    [
        (0, 0, "none"),
        (2, 50, "concentrated"),
        (30, 500, "concentrated"),
        (30, 499, "mixed"),
        (30, 250, "mixed"),
        (9, 200, "mixed"),
        (10, 249, "broad"),
    ],
)
def test_quality_says_how_stakes_are_spread(bettors: int, largest: int, label: str) -> None:
    assert quality_of(Crowd(bettors, bettors, 1_000 * USD, largest * USD)) == label


def test_the_suggestion_is_the_crowds_side_of_the_largest_market() -> None:
    deep = priced(30, 900, MarketKind.DIRECTION, name="deep")
    thin = priced(90, 100, name="thin")
    ladder = market("ladder", "X", "?", kind=MarketKind.RANGE, net=(9_000, 100, 200))
    found = market_signals((thin, ladder, deep), {FEED: BELOW})
    assert [each.market.id for each in found] == ["ladder", "deep", "thin"]

    def suggested(signals: Any, hundredths: int) -> tuple[Any, ...]:
        found = suggested_bet(signals, Decimal(hundredths) / 100, LINKS)
        assert found is not None
        return found.market_id, found.side, found.side_label, found.implied_cents

    assert suggested(found, 4_999) == ("deep", "down", "DOWN", 70)
    assert suggested(found, 5_000) == ("deep", "up", "UP", 30)
    only_ladder = suggested(market_signals((ladder,), {FEED: BELOW}), 5_000)
    assert only_ladder[1:3] == (ladder.outcomes[2].key, "YES")
    assert suggested(market_signals((thin,), {}), 9_000)[2:] == ("YES", 90)
    # Nothing lies above the current value: no bucket can be bullish.
    assert suggested_bet(market_signals((ladder,), {FEED: ABOVE}), Decimal(50), LINKS) is None


def test_equal_pools_go_by_deadline_then_id() -> None:
    same = [market("b", "X", "?", closes=50), market("c", "X", "?", closes=40), market("a", "X", "?", closes=50)]
    assert [each.market.id for each in market_signals(same, {})] == ["c", "a", "b"]


def test_token_symbols_are_normalized() -> None:
    for text in ("$BNKR", "BNKR", "bnkr", "$bnkr", " BnKr ", "＄ｂｎｋｒ"):
        assert symbol_of(text) == "BNKR"


@pytest.mark.parametrize("text", [None, "", "  ", "$", "two words", "x" * 33, "A\x0fB"])
def test_an_invalid_symbol_is_422(text: str | None) -> None:
    with pytest.raises(Problem) as refusal:
        symbol_of(text)
    assert (refusal.value.status, refusal.value.code) == (422, "invalid_request")


def test_the_summary_matches_the_fields() -> None:
    markets = [priced(82, 1_000, name="a"), market("r", "X", "?", kind=MarketKind.RANGE)]
    body = orjson.loads(to_json(intel("X", market_signals(markets, {}), CROWD, snapshot(*markets), LINKS)))
    assert body["summary"] == (
        "X is strongly bullish at 82 of 100: 2 open markets, 1000 USD from 30 wallets, high confidence."
    )
    assert intel("Y", (), Crowd(), snapshot(), LINKS).summary == "Y has no open market."
    unread = market_signals(markets[1:], {})
    assert intel("X", unread, Crowd(), snapshot(), LINKS).summary == "X has 1 open market, none with a direction."


nets = st.lists(st.integers(0, 10**9), min_size=2, max_size=2)


@given(st.lists(st.tuples(nets, st.booleans()), max_size=6), st.integers(0, 2))
def test_scores_stay_between_0_and_100_and_mirror(books: list[tuple[list[int], bool]], seen: int) -> None:
    """Swapping the sides of every market mirrors the score about 50."""
    made = [
        market(f"m{at}", "X", "?", kind=MarketKind.DIRECTION if direction else MarketKind.THRESHOLD, net=tuple(net))
        for at, (net, direction) in enumerate(books)
    ]
    swapped = [replace(each, book=replace(each.book, net=each.book.net[::-1])) for each in made]
    points = scored(*made).score * 100
    assert 0 <= points <= 10_000
    assert abs(points + scored(*swapped).score * 100 - 10_000) <= 1  # prices and the score are rounded
    ladder = market("r", "X", "?", kind=MarketKind.RANGE, net=(seen, 10, 20))
    assert 0 <= scored(*made, ladder, latest=(BELOW, BETWEEN, ABOVE)[seen]).score * 100 <= 10_000
