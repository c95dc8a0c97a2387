"""Facts as bodies, without I/O: prices, positions, results, cursors, what metadata may and may not say."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.agent import pages, render
from api.agent.facts import Ending, Market, Stake
from api.agent.render import Links
from api.http.problem import Problem
from core.market_words import described
from core.mirror.bet import market_key
from core.mirror.settlement import Book, Kind
from core.money import USD, loads

LINKS = Links("https://example.org", None, "0x" + "aa" * 20)
CAP = 100_000_000 * 10**8


def market(kind: Kind = Kind.THRESHOLD, book: Book | None = None, **changes: Any) -> Market:
    bounds = (10 * 10**8, 20 * 10**8) if kind is Kind.RANGE else ()
    count = 3 if kind is Kind.RANGE else 2
    outcomes, texts = described(market_key("m"), kind, CAP, bounds, 2_000_000_000, {"id": "m", "tokenSymbol": "X"})
    made = Market(
        key=market_key("m"),
        kind=kind,
        feed="0x" + "bb" * 20,
        target=CAP,
        bounds=bounds,
        early_resolvable=False,
        opens_at=0,
        closes_at=2_000_000_000,
        start_at=1_900_000_000,
        book=book or Book.empty(count, 1_000 * USD, 200),
        volume=0,
        bets=0,
        outcome_bets=(0,) * count,
        ending=None,
        listed_at=0,
        listed_order=(1, 0),
        version="1-0",
        document={},
        outcomes=outcomes,
        texts=texts,
    )
    return replace(made, **changes)


def stake(outcome: int | None, amount: int, fee: int, shares: int) -> Stake:
    return Stake(
        id=1,
        market_key=market_key("m"),
        wallet="0x" + "11" * 20,
        outcome=outcome,
        amount=amount,
        fee=fee,
        shares=shares,
        price_after=None,
        intent_hash=bytes(32),
        idem_hash=bytes(32),
        builder=None,
        ref=None,
        status=1,
        block=1,
        at=1,
        tx=bytes(32),
        paid_amount=0,
        paid_at=None,
        paid_tx=None,
    )


def ending(winner: int | None) -> Ending:
    return Ending(winner, None, None, None, None, 1, bytes(32))


def numbers(body: Any) -> Any:
    return loads(orjson.dumps(body))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(USD, 10**12)), max_size=8))
def test_prices_of_two_sides_sum_to_a_hundred(stakes: list[tuple[int, int]]) -> None:
    book = Book.empty(2, 1_000 * USD, 200)
    for outcome, amount in stakes:
        book, _ = book.staked(outcome, amount)
    odds = numbers(render.odds(market(book=book)))
    total = Decimal(odds["yesPriceCents"]) + Decimal(odds["noPriceCents"])
    assert Decimal("99.9998") <= total <= 100  # each rounded down


@pytest.mark.proves(
    "agent.positions.decision.pnl_open",
    "agent.positions.decision.max_payout",
    "agent.positions.decision.current_cents",
    "agent.positions.state.resolved-refunded",
)
def test_a_position_through_its_life() -> None:
    book = Book.empty(2, 1_000 * USD, 200)
    book, first = book.staked(0, 10 * USD)
    book, second = book.staked(1, 30 * USD)
    held = stake(0, 10 * USD, first.fee, first.shares)
    live = numbers(render.position(market(book=book), held, LINKS)[0])
    price, most = book.price(0), book.payout(0, first.shares)
    assert most == first.net + second.net  # the only holder of its side takes the pool
    assert live["maxPayoutUsd"] == Decimal(most) / USD
    assert live["pnlUsd"] == Decimal(most * price // 10**18 - 10 * USD) / USD
    assert live["currentCents"] == Decimal(price // 10**12) / 10**4
    assert live["status"] == "open"
    won = numbers(render.position(market(book=book, ending=ending(0)), held, LINKS)[0])
    assert (won["status"], won["currentCents"], won["pnlUsd"]) == ("resolved-won", 100, Decimal(most) / USD - 10)
    lost = numbers(render.position(market(book=book, ending=ending(1)), held, LINKS)[0])
    assert (lost["status"], lost["currentCents"], lost["pnlUsd"]) == ("resolved-lost", 0, -10)
    void = numbers(render.position(market(book=book, ending=ending(None)), held, LINKS)[0])
    assert (void["status"], void["pnlUsd"], void["maxPayoutUsd"]) == ("resolved-refunded", 0, 10)
    late = numbers(render.position(market(book=book), stake(None, 5 * USD, 0, 0), LINKS)[0])
    assert (late["status"], late["pnlUsd"], late["side"], late["proofUrl"]) == ("resolved-refunded", 0, "refund", None)


def test_nobody_on_the_winning_side_is_a_refund() -> None:
    book, got = Book.empty(2, 1_000 * USD, 200).staked(0, 10 * USD)
    ended = market(book=book, ending=ending(1))
    shown = numbers(render.position(ended, stake(0, 10 * USD, got.fee, got.shares), LINKS)[0])
    assert (shown["status"], shown["pnlUsd"]) == ("resolved-refunded", 0)
    result = render.result(ended, LINKS)
    assert (result["resolvedOutcome"], result["payoutPerShareUsd"], result["refunded"]) == ("no", None, True)


@pytest.mark.proves("agent.market.decision.status_values")
def test_market_status_by_the_chains_clock() -> None:
    assert market().status(1_999_999_999) == "open"
    assert market().status(2_000_000_000) == "closed"
    assert market(ending=ending(0)).status(0) == "resolved"
    assert market(ending=ending(None)).status(0) == "void"


def test_metadata_cannot_change_what_a_side_means() -> None:
    swapped = [{"key": "no", "label": "No"}, {"key": "yes", "label": "Yes"}]
    outcomes, texts = described(b"k" * 32, Kind.THRESHOLD, CAP, (), 1, {"id": "other", "outcomes": swapped})
    assert [each.key for each in outcomes] == ["yes", "no"]
    assert texts["id"] == "0x" + (b"k" * 32).hex()  # an id that is not this key's is not believed
    same = [{"key": "a"}, {"key": "a"}]
    outcomes, _ = described(b"k" * 32, Kind.RANGE, 0, (1,), 1, {"outcomes": same})
    assert [each.key for each in outcomes] == ["b0", "b1"]


def test_cursors_check_themselves() -> None:
    cursor = pages.cursor_of(market())
    assert pages.place_of(cursor) == (2_000_000_000, 1, 0)
    for wrong in ("", "AAAA", cursor[:-2], "A" + cursor[1:], cursor + "AA", "é"):
        with pytest.raises(Problem, match="cursor"):
            pages.place_of(wrong)
