"""Bodies made from facts, without I/O: prices, positions, results, projected payouts, cursors."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.agent.bodies import markets, positions, research, trades
from api.agent.bodies import parts as projection
from api.agent.facts import Ending, FeedRound, Holding, Links, ListedMarket, Stake
from api.agent.requests import cursor_of, place_of
from api.agent.trade.orders import MAX_POINTS, check_impact, largest_size, max_unmoving
from api.operations import body_from
from api.problems import Problem
from core.agent.book import Book, Quote, fee_of
from core.contracts.statuses import MarketKind
from core.feeds.words import Computed
from core.iso import iso
from core.money import USD, loads, parts_of, to_json
from tests.support import agent_markets
from tests.support.agent_markets import CAP, NOW, stake
from tests.support.pool_feeds import pool_feed

LINKS = Links("https://example.org", None, "0x" + "aa" * 20)
EMPTY = Book.empty((500 * USD, 500 * USD), 200)
THIN = Book.empty((10 * USD, 10 * USD), 200)
"""As the service lists them: ten dollars of virtual weight on each side."""


def market(kind: MarketKind = MarketKind.THRESHOLD, book: Book | None = None, **changes: Any) -> ListedMarket:
    made = agent_markets.market("m", "X", "Question?", kind=kind)
    return replace(made, book=book or made.book, **changes)


def held(outcome: int, got: Quote) -> Stake:
    return stake(outcome, got.amount, got.fee, got.shares)


def ending(winner: int | None) -> Ending:
    return Ending(winner, None, None, None, None, 1, bytes(32))


def quoted(made: ListedMarket, outcome: int, got: Quote) -> Any:
    return trades.quote(
        made,
        outcome,
        got,
        quote_id="q",
        expires_at="",
        projected=projection.project_quote(made, outcome, got),
        snapshot=agent_markets.snapshot(made),
        links=LINKS,
    )


def numbers(body: Any) -> Any:
    return loads(to_json(body))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(USD, 10**12)), max_size=8))
def test_prices_of_two_sides_sum_to_a_hundred(stakes: list[tuple[int, int]]) -> None:
    book = EMPTY
    for outcome, amount in stakes:
        book, _ = book.staked(outcome, amount)
    odds = numbers(markets.odds(market(book=book)))
    total = Decimal(odds["yesPriceCents"]) + Decimal(odds["noPriceCents"])
    assert total == 100


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**30), min_size=1, max_size=12).filter(any))
def test_parts_sum_to_the_whole_and_none_is_a_unit_off(whole: int, weights: list[int]) -> None:
    parts = parts_of(whole, weights)
    assert sum(parts) == whole
    total = sum(weights)
    assert all(abs(part * total - whole * each) < total for part, each in zip(parts, weights, strict=True))


def test_a_market_that_ended_shows_its_result_and_no_odds() -> None:
    book, _ = EMPTY.staked(0, 10 * USD)
    over, live = market(book=book, ending=ending(0)), market(book=book)
    assert numbers(markets.odds(over)) == {"yesPriceCents": None, "noPriceCents": None}
    assert numbers(markets.ended(over, ending(0))) == {
        "outcome": "yes",
        "label": "Yes",
        "resolvedAt": "1970-01-01T00:00:01Z",
        "refunded": True,
    }
    assert markets.ended(over, ending(None)).outcome == "void"
    assert numbers(markets.odds(live))["yesPriceCents"] > 50
    for kind in MarketKind:
        made = market(kind)
        shown = numbers(markets.market_ref(replace(made, ending=ending(0)), agent_markets.snapshot(made), LINKS))
        assert (shown["odds"], {each["impliedPct"] for each in shown["outcomes"]}) == (None, {None})
        assert shown["result"]["outcome"] == shown["outcomes"][0]["key"]
        shown = numbers(markets.market_ref(made, agent_markets.snapshot(made), LINKS))
        assert shown["result"] is None
        assert sum(each["impliedPct"] for each in shown["outcomes"]) == 100
    answered = Ending(0, 120 * 10**8, 7, 100 * 10**8, 5, 9, bytes(32))
    result = numbers(markets.result(market(book=book, ending=answered), LINKS))
    assert (result["startReadingUsd"], result["endReadingUsd"]) == (100, 120)


@pytest.mark.parametrize("stakes", [(), ((0, 10 * USD),), ((1, 400 * USD), (0, USD))])
def test_suggested_limits_tolerate_a_small_bet_in_between(stakes: tuple[tuple[int, int], ...]) -> None:
    book = EMPTY
    for outcome, amount in stakes:
        book, _ = book.staked(outcome, amount)
    for size in (USD, 50 * USD):
        got = book.quote(0, size)
        then = book.staked(0, USD)[0].quote(0, size)
        assert then.shares < got.shares
        assert then.shares >= trades.suggested_min_shares(got)
        dearest = trades.suggested_max_cents(got)
        assert dearest is not None
        assert then.net * 100 <= dearest * then.shares


def test_a_position_through_its_life() -> None:
    book, first = EMPTY.staked(0, 10 * USD)
    book, second = book.staked(1, 30 * USD)
    mine = held(0, first)
    live = numbers(positions.position(market(book=book), mine, LINKS))
    price, most = book.price(0), book.projected(0, mine.amount, mine.shares)
    assert most == first.net + second.net  # the only holder of its side takes the pool
    assert live["maxPayoutUsd"] == live["projectedPayoutUsd"] == Decimal(most) / USD
    assert live["payoutUsd"] is None
    assert live["pnlUsd"] == Decimal(most * price // 10**18 - 10 * USD) / USD
    assert live["currentCents"] == numbers(markets.odds(market(book=book)))["yesPriceCents"]
    assert abs(live["currentCents"] - Decimal(price) / 10**16) < Decimal("0.0001")
    assert live["status"] == "open"
    won = numbers(positions.position(market(book=book, ending=ending(0)), mine, LINKS))
    assert (won["status"], won["currentCents"], won["pnlUsd"]) == ("resolved-won", 100, Decimal(most) / USD - 10)
    assert won["payoutUsd"] == Decimal(most) / USD
    lost = numbers(positions.position(market(book=book, ending=ending(1)), mine, LINKS))
    assert (lost["status"], lost["currentCents"], lost["pnlUsd"]) == ("resolved-lost", 0, -10)
    assert lost["payoutUsd"] == 0
    void = numbers(positions.position(market(book=book, ending=ending(None)), mine, LINKS))
    assert (void["status"], void["pnlUsd"], void["maxPayoutUsd"]) == ("resolved-refunded", 0, 10)
    late = numbers(positions.position(market(book=book), stake(None, 5 * USD, 0, 0), LINKS))
    assert (late["status"], late["pnlUsd"], late["side"], late["proofUrl"]) == ("resolved-refunded", 0, "refund", None)
    assert (late["payoutUsd"], late["projectedPayoutPerShareUsd"]) == (5, None)


def test_the_summary_equals_the_sum_of_the_positions() -> None:
    """There are two on one side of an open market, two settled ones, and one of a market listed later."""
    book, first = EMPTY.staked(0, 10 * USD)
    book, _ = book.staked(1, 30 * USD)
    book, third = book.staked(0, 7 * USD)
    live = market(book=book)
    open_ones = Holding(live.key, 0, stakes=2, amount=17 * USD, shares=first.shares + third.shares, worth=0)
    settled = Holding(None, 0, stakes=2, amount=40 * USD, shares=0, worth=36 * USD)
    unknown = replace(open_ones, market_key=bytes(32))
    body = numbers(positions.summary([open_ones, settled, unknown], {live.key: live}))
    assert (body["openCount"], body["resolvedCount"], body["totalStakedUsd"]) == (2, 2, 57)
    each = [numbers(positions.position(live, held(0, got), LINKS))["pnlUsd"] for got in (first, third)]
    assert 0 <= body["totalPnlUsd"] - (sum(each) - 4) < Decimal(2) / USD, "rounded down once, not for each"


def test_a_range_shows_the_price_and_the_stakes_of_each_outcome() -> None:
    book = market(MarketKind.RANGE).book.staked(0, 10 * USD)[0].staked(2, 30 * USD)[0]
    made = market(MarketKind.RANGE, book, volume=40 * USD, bets=2)
    shown = numbers(markets.market_ref(made, agent_markets.snapshot(made), LINKS))
    prices = [each["impliedPct"] for each in shown["outcomes"]]
    assert sum(prices) == 100
    assert all(abs(price - Decimal(book.price(at)) / 10**16) < Decimal("0.0001") for at, price in enumerate(prices))
    ladder = numbers(markets.ladder(made, None))
    assert [each["impliedPct"] for each in ladder["outcomes"]] == prices
    assert [each["backedUsd"] for each in ladder["outcomes"]] == [Decimal("9.8"), 0, Decimal("29.4")]
    assert ladder["totalBackedUsd"] == Decimal("39.2")
    pools = ("totalPoolUsd", "yesPoolUsd", "noPoolUsd", "feeUsd")
    stats = numbers(markets.stats(made))
    assert [stats[each] for each in pools] == [Decimal(each) for each in ("39.2", "29.4", "9.8", "0.8")]


@pytest.mark.parametrize("winner", [1, 0])
def test_a_market_with_bets_on_one_side_refunds_every_stake(winner: int) -> None:
    """Without winners or losers the fee is refunded too."""
    book, got = EMPTY.staked(0, 10 * USD)
    ended = market(book=book, ending=ending(winner))
    shown = numbers(positions.position(ended, held(0, got), LINKS))
    assert (shown["status"], shown["pnlUsd"], shown["payoutUsd"]) == ("resolved-refunded", 0, 10)
    result = markets.result(ended, LINKS)
    assert (result.payout_per_share_usd, result.refunded) == (None, True)


def many_against_few() -> tuple[Book, Quote, Quote, Quote]:
    """Return a book whose pool has less than a dollar for each share of the first side."""
    book, early = THIN.staked(0, 100 * USD)
    book, late = book.staked(0, 100 * USD)
    book, other = book.staked(1, 5 * USD)
    assert book.net_pool < book.shares[0]
    return book, early, late, other


def test_unequal_payouts_have_no_payout_per_share_but_exact_payouts_in_positions() -> None:
    book, early, late, other = many_against_few()
    ended = market(book=book, ending=ending(0))
    result = numbers(markets.result(ended, LINKS))
    assert (result["payoutPerShareUsd"], result["refunded"]) == (None, False)
    paid = [numbers(positions.position(ended, held(0, got), LINKS))["payoutUsd"] for got in (early, late)]
    per_share = [payout / (Decimal(got.shares) / USD) for payout, got in zip(paid, (early, late), strict=True)]
    assert per_share[0] != per_share[1]
    for payout, got in zip(paid, (early, late), strict=True):
        assert payout * USD == book.payout(0, got.amount, got.shares) >= got.net  # never less than stake less fee
    assert sum(paid) * USD <= book.net_pool
    # The other side is paid alike: a dollar a share is there.
    alike = numbers(markets.result(market(book=book, ending=ending(1)), LINKS))
    assert alike["payoutPerShareUsd"] == Decimal(book.net_pool * 10**6 // other.shares) / 10**6


def test_market_status_by_the_chains_clock() -> None:
    closes = market().closes_at
    assert market().status(closes - 1) == "open"
    assert market().status(closes) == "closed"
    assert market(ending=ending(0)).status(0) == "resolved"
    assert market(ending=ending(None)).status(0) == "void"


@pytest.mark.parametrize("kind", list(MarketKind))
def test_every_body_that_shows_a_market_names_its_times_to_the_second(kind: MarketKind) -> None:
    made = market(kind)
    times = {
        "deadlineAt": "2030-03-18T17:46:40Z",
        "startAt": "2030-03-18T18:46:40Z" if kind is MarketKind.DIRECTION else None,
        "endsAt": "2030-03-18T19:46:40Z",
        "settlesAfter": "2030-03-18T20:46:40Z",
    }
    assert made.closes_at == NOW + 86_400
    got = made.book.quote(0, USD)
    bodies = [
        body_from(trades.ProofMarket, made.words, made.book, **markets.market_facts(made, LINKS, NOW)),
        markets.market_ref(made, agent_markets.snapshot(made), LINKS),
        research.rules(made, LINKS),
        markets.result(made, LINKS),
        positions.position(made, held(0, got), LINKS),
        quoted(made, 0, got),
    ]
    for body in map(numbers, bodies):
        assert {name: body[name] for name in times} == times


# ---------------------------------------------------------------- what a bet would be paid


def codes(projected: projection.Projection) -> list[str]:
    return [each.code for each in projected.warnings]


def test_a_quote_is_projected_with_its_own_stake_in_the_book() -> None:
    book, _ = THIN.staked(1, 50 * USD)
    made = market(book=book, outcome_bets=(0, 1))
    got = book.quote(0, 10 * USD)
    projected = projection.project_quote(made, 0, got)
    assert projected.payout == book.net_pool + got.net  # the only holder of its side takes the pool
    assert codes(projected) == ["first_on_its_side"]
    body = numbers(quoted(made, 0, got))
    assert body["projectedPayoutUsd"] == Decimal(projected.payout) / USD
    assert body["projectedPayoutPerShareUsd"] == Decimal(projected.payout * 10**6 // got.shares) / 10**6
    assert (body["sizeUsd"], body["feeUsd"], body["netStakeUsd"]) == (10, Decimal("0.2"), Decimal("9.8"))
    assert body["estimatedShares"] == Decimal(got.shares) / USD
    assert body["priceCents"] == Decimal(got.net * 10**6 // got.shares) / 10**4
    assert body["postTradeOdds"] == numbers(markets.odds(market(book=book.staked(0, 10 * USD)[0])))


def test_a_bet_that_would_be_paid_less_than_its_stake_is_warned_about() -> None:
    """With little money on the other side, its winnings would not cover the fee."""
    book, _ = THIN.staked(0, 100 * USD)
    book, _ = book.staked(1, 1 * USD)
    made = market(book=book, outcome_bets=(1, 1))
    got = book.quote(0, 100 * USD)
    projected = projection.project_quote(made, 0, got)
    assert got.net <= projected.payout < got.amount
    assert codes(projected) == ["pays_less_than_stake"]
    after, _ = book.staked(0, 100 * USD)
    assert codes(projection.project_position(market(book=after, outcome_bets=(2, 1)), held(0, got), 0)) == codes(
        projected
    )


def test_an_empty_wallet_and_the_last_minutes_are_warned_about() -> None:
    made = market(book=THIN, outcome_bets=(1, 1))
    got = THIN.quote(0, 10 * USD)
    closes = made.closes_at
    assert codes(projection.project_quote(made, 0, got, now=closes - 121, balance=10 * USD)) == []
    assert codes(projection.project_quote(made, 0, got, now=closes - 120, balance=10 * USD - 1)) == [
        "wallet_underfunded",
        "closes_soon",
    ]


def test_a_receipt_shows_the_book_right_after_its_stake() -> None:
    book, got = THIN.staked(0, 10 * USD)
    totals = {0: (book.net[0], book.shares[0], book.excess[0], 1)}
    later, _ = book.staked(1, 500 * USD)
    placed = held(0, got)
    bodies = [trades.receipt(market(book=each), placed, totals, LINKS) for each in (book, later)]
    assert to_json(bodies[0]) == to_json(bodies[1])
    assert numbers(bodies[0])["projectedPayoutUsd"] == 10  # alone in the market: given back whole
    assert [each.code for each in bodies[0].warnings] == ["first_on_its_side"]


# ---------------------------------------------------------------- the largest bet


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(USD, 10**9)), max_size=6), st.integers(0, 1))
def test_the_largest_unmoving_bet_fits_and_one_unit_more_does_not(stakes: list[tuple[int, int]], outcome: int) -> None:
    book = THIN
    for side, amount in stakes:
        book, _ = book.staked(side, amount)
    most = max_unmoving(book, outcome)

    def moves(amount: int) -> int:
        got = book.quote(outcome, amount)
        return got.price_after - got.price_before

    assert moves(most) <= MAX_POINTS
    assert most == 10**15 or moves(most + 1) > MAX_POINTS


@pytest.mark.parametrize(
    ("held", "size", "limit", "largest"),
    [
        (0, 1_000, "price", None),
        (980, 21, "pot_cap", 20.408163),  # of which 20 are left after the fee of 2%
        (999.02, 11, "pot_cap", 1),
        (999.5, 11, "pot_cap", 0),
    ],
)
def test_the_error_for_a_bet_too_large_names_the_largest_that_fits(
    held: float, size: int, limit: str, largest: float | None
) -> None:
    book = replace(THIN, net=(int(held * USD), 0))
    made = market(book=book, pot_cap=1_000 * USD)
    with pytest.raises(Problem) as refusal:
        check_impact(made, 0, book.quote(0, size * USD))
    assert refusal.value.code == "pool_impact_exceeded"
    details = numbers(refusal.value.extra["details"])
    assert details["limit"] == limit
    fits = max_unmoving(THIN, 0) if largest is None else round(largest * USD)
    assert details["largestSizeUsd"] == Decimal(fits) / USD
    if fits:
        check_impact(made, 0, book.quote(0, fits))


def test_invented_cursors_are_refused() -> None:
    cursor = cursor_of(market().sort_key)
    assert place_of(cursor, 3) == (market().closes_at, 1, 0)
    for wrong in ("", "AAAA", cursor[:-2], "A" + cursor[1:], cursor + "AA", "é", cursor_of((1, 2))):
        with pytest.raises(Problem, match="cursor"):
            place_of(wrong, 3)


# ---------------------------------------------------------------- what decides it


def pooled(kind: MarketKind = MarketKind.DIRECTION, **changes: Any) -> ListedMarket:
    made = market(kind)
    words = replace(made.words, computed=Computed.from_feed(pool_feed()))
    return replace(made, words=words, spec=replace(made.spec, published=False), **changes)


def decided(made: ListedMarket, now: int, readings: Mapping[int, FeedRound]) -> Any:
    return numbers(research.decided_by(made, now, readings, LINKS))


def test_deciding_readings_have_their_transactions() -> None:
    spec = pooled().spec
    start, end = spec.start_at - spec.start_at % 60, spec.ends_at - spec.ends_at % 60
    assert decided(pooled(), spec.start_at, {}) == []
    (first,) = decided(pooled(), spec.start_at + 1, {})
    assert (first["recorded"], first["txHash"], first["value"]) == (False, None, None)
    held_ = {start: FeedRound(CAP, start, b"\x01" * 32), end: FeedRound(0, end, b"\x02" * 32)}
    first, last = decided(pooled(), spec.ends_at + 1, held_)
    assert (first["value"], first["txHash"]) == (100_000_000, "0x" + "01" * 32)
    assert (last["recorded"], last["value"], last["txHash"]) == (True, None, "0x" + "02" * 32)  # recorded, and no good


def test_a_settled_market_lists_the_readings_that_decided() -> None:
    """The reading at the end may be absent and an earlier one count; a crossing counts at its own time."""
    made = pooled(MarketKind.THRESHOLD)
    earlier = made.spec.ends_at - made.spec.ends_at % 60 - 120
    settled = Ending(1, CAP - 1, earlier, None, None, 1, bytes(32))
    (row,) = decided(replace(made, ending=settled), NOW, {earlier: FeedRound(CAP - 1, earlier, bytes(32))})
    assert (row["readAt"], row["moment"]) == (iso(earlier), iso(made.spec.ends_at))
    early = replace(made.spec, early_resolvable=True, early_from=earlier - 600)
    crossed = replace(made, spec=early, ending=replace(settled, winner=0))
    (row,) = decided(crossed, NOW, {})
    assert (row["readAt"], row["moment"]) == (iso(earlier), iso(earlier))
    assert decided(replace(made, ending=ending(None)), NOW, {}) == []


def test_rules_say_what_kind_of_feed_decides() -> None:
    rules = numbers(research.rules(pooled(), LINKS))
    assert (rules["feedKind"], len(rules["computedFrom"]["pools"])) == ("pool", 2)
    assert rules["computedFrom"]["supply"] == "100,000,000,000"
    posted = numbers(research.rules(market(), LINKS))
    assert (posted["feedKind"], posted["computedFrom"]) == ("published", None)
    other = market()
    rounds = numbers(research.rules(replace(other, spec=replace(other.spec, published=False)), LINKS))
    assert rounds["feedKind"] == "rounds"


def test_a_quote_has_the_largest_possible_bet() -> None:
    full = market(book=replace(THIN, net=(99_020_001, 0)), pot_cap=100 * USD)  # a dollar less its fee is 980,000
    assert largest_size(full, 0) == 0
    room = replace(full, book=replace(THIN, net=(98_040_000, 0)))
    assert largest_size(room, 0) == 2 * USD
    check_impact(room, 0, room.book.quote(0, largest_size(room, 0)))
    assert largest_size(room, 1) == max_unmoving(room.book, 1)


def test_the_largest_bet_is_what_the_contract_accepts() -> None:
    rng = random.Random(7)
    for _ in range(2_000):
        outcomes, fee = rng.randrange(2, 9), rng.randrange(175, 1_001)
        cap = rng.randrange(10**6 * outcomes, 10**12)
        share = cap // (outcomes - 1)
        book = replace(Book.empty((10 * USD,) * outcomes, fee), net=(rng.randrange(share + 1),) * outcomes)
        largest = book.room(0, cap)
        assert book.net[0] + largest - fee_of(largest, fee) <= share
        assert book.net[0] + largest + 1 - fee_of(largest + 1, fee) > share
