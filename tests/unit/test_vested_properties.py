"""The mirror against the independent model, and the mechanism's promises, over histories hypothesis can shrink."""

from __future__ import annotations

from itertools import permutations
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.stock.vested import (
    Moment,
    Position,
    S,
    Terms,
    VestedMarket,
    accepted_of,
    accrued,
    headroom,
    market_view,
    match,
    offer,
    open_books,
    position_view,
)
from tests.contracts.model.histories import Enter, History, NextBlock, generate
from tests.contracts.model.narrator import FREEZE, Narrator, address
from tests.contracts.model.parimutuel import SCALE, Model
from tests.support.depth import EXAMPLES
from tests.support.stock_ledger import Ledger

HISTORY = st.builds(
    lambda entries, seed: generate(Random(seed), (1, entries)), st.integers(1, 16), st.integers(0, 2**64 - 1)
)
"""Shrinks to few entries; within that a seed is as good as another."""
PROPERTY = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

KAPPA = st.one_of(st.integers(1, 100), st.sampled_from((1, 2, 30, 10**9)), st.integers(1, 10**9))
AMOUNT = st.one_of(st.integers(1, 100), st.integers(1, 10**9), st.integers(1, 10**15))
OFFER = st.tuples(st.integers(0, 1), AMOUNT)
BLOCKS = st.lists(st.lists(OFFER, min_size=1, max_size=6), min_size=1, max_size=8)


def opened(history: History) -> tuple[Narrator, Ledger]:
    narrator = Narrator(history)
    ledger = Ledger()
    for each in narrator.opening():
        ledger.apply(each)
    return narrator, ledger


@PROPERTY
@given(HISTORY)
def test_the_mirror_folded_from_events_equals_the_model_after_every_step(history: History) -> None:
    narrator, ledger = opened(history)
    model = narrator.model
    for step in history.steps:
        for e in narrator.do(step):
            ledger.apply(e)
        market, now = ledger.markets[1], narrator.now
        seen = market_view(market, now)
        for side in (0, 1):
            assert seen.books[side].principal == model.principal(side)
            assert seen.books[side].acc == model.promised_since_the_seed(side)
            assert seen.books[side].demand == model.demand(side)
            assert seen.headroom[side] == model.headroom(side)
        assert market.unpaid_principal == model.unpaid_principal()
        for entry, position_id in zip(model.entries, narrator.ids, strict=True):
            position = ledger.positions[position_id]
            view = position_view(market, position, ledger.vintage_of(position), now)
            due, unsent = model.due(entry), model.unsent(entry)
            assert (position.owner, position.offered) == (address(entry.owner), entry.offered)
            assert (view.accepted, view.accrued) == (entry.accepted, model.accrued(entry))
            paid = view.settlement
            assert (paid.gross, paid.fee, paid.refund) == (due.gross, due.fee, due.refund)
            assert paid.total == unsent.net + unsent.refund
            if entry.accepted is not None:
                assert view.entry_acc == model.promised_since_the_seed(entry.side) - entry.per_unit + SCALE


@PROPERTY
@given(HISTORY)
def test_everything_is_paid_and_nothing_else(history: History) -> None:
    """Conservation: what came in goes out to owners, as fees and as residue, and no more is ever owed than held."""
    narrator, ledger = opened(history)
    held = 2 * history.seed
    for step in history.steps:
        before = ledger.markets[1]
        for e in narrator.do(step):
            ledger.apply(e)
        market = ledger.markets[1]
        held += step.amount if isinstance(step, Enter) else 0
        held -= market.paid - before.paid + market.refunded - before.refunded
        held -= market.residue_claimed - before.residue_claimed
        positions = ledger.positions.values()
        for winner in (0, 1):
            owed = sum(
                accrued(market, p, ledger.vintage_of(p), narrator.now)
                for p in positions
                if p.outcome == winner and not p.claimed
            )
            if not market.settled:
                assert owed <= market_view(market, narrator.now).pool
        assert held >= sum(
            position_view(market, p, ledger.vintage_of(p), narrator.now).settlement.total for p in positions
        )
    assert held == ledger.markets[1].fees
    assert ledger.markets[1].unpaid_principal == 0
    assert ledger.markets[1].distributed == ledger.markets[1].pool


@PROPERTY
@given(HISTORY)
def test_payouts_stay_within_the_rounding_bound_of_the_exact_value(history: History) -> None:
    """Below the exact rational value by less than one unit and 1/S of the stake per promise; never above it. So the
    residue is at most that, over all winners."""
    narrator, ledger = opened(history)
    for step in history.steps:
        for e in narrator.do(step):
            ledger.apply(e)
    model, market = narrator.model, ledger.markets[1]
    for side in (0, 1):
        exact_pool = 0
        for entry, position_id in zip(model.entries, narrator.ids, strict=True):
            position = ledger.positions[position_id]
            exact = model.exact_payout(entry)
            short = exact - accrued(market, position, ledger.vintage_of(position), narrator.now)
            assert 0 <= short < model.rounding_bound(entry)
            exact_pool += exact if entry.side == side else 0
        # Without rounding, one side's winners share the whole pool and nothing is left.
        assert exact_pool == model.principal(0) + model.principal(1)
    if model.winner is not None:
        winners = [e for e in model.entries if e.side == model.winner]
        assert model.residue() < sum(model.rounding_bound(e) for e in winners)


@PROPERTY
@given(HISTORY)
def test_accrued_never_falls_while_the_market_is_open(history: History) -> None:
    narrator, ledger = opened(history)
    last: dict[int, int] = {}
    for step in history.steps:
        for e in narrator.do(step):
            ledger.apply(e)
        market = ledger.markets[1]
        for position in ledger.positions.values():
            now = accrued(market, position, ledger.vintage_of(position), narrator.now)
            assert now >= last.get(position.position_id, 0)
            last[position.position_id] = now


@PROPERTY
@given(HISTORY, st.integers(0, 1))
def test_the_seed_cannot_lose(history: History, winner: int) -> None:
    """Whichever side wins, the winning seed leg is worth at least both legs, before the fee on what it gained."""
    narrator, ledger = opened(history)
    for step in history.steps:
        for e in narrator.do(step):
            ledger.apply(e)
    position = ledger.positions[narrator.ids[winner]]
    assert accrued(ledger.markets[1], position, ledger.vintage_of(position), narrator.now) >= 2 * history.seed


# ---------------------------------------------------------------- one vintage at a time


def fresh(kappa: int, seed: int) -> VestedMarket:
    return VestedMarket(Terms(1, "o", "r", FREEZE, 0, 0, kappa, seed, 1, 2**48 - 1, 2**48 - 1), open_books(seed))


def played(market: VestedMarket, blocks: list[list[tuple[int, int]]]) -> VestedMarket:
    for number, crowd in enumerate(blocks, start=1):
        for side, amount in crowd:
            market, _ = offer(market, side, amount, number)
        market, _ = match(market)
    return market


@PROPERTY
@given(KAPPA, AMOUNT, BLOCKS, OFFER)
def test_a_buzzer_entry_gets_exactly_its_stake_and_what_the_other_side_adds(
    kappa: int, seed: int, blocks: list[list[tuple[int, int]]], last: tuple[int, int]
) -> None:
    market = played(fresh(kappa, seed), blocks)
    side, amount = last
    number = len(blocks) + 1
    market, before = offer(market, side, amount, number)
    market, vintage = match(market)
    position = Position(9, 1, "b", side, amount, number, before)
    accepted = accepted_of(position, vintage)
    assert accepted is not None
    assert accrued(market, position, vintage, Moment(number, 0)) == accepted
    # The other side adds: the entry's part of it, in proportion to the principal it stands in.
    standing = market.books[side].principal
    market, _ = offer(market, 1 - side, amount, number + 1)
    market, added = match(market)
    assert added.accepted is not None
    now = accrued(market, position, vintage, Moment(number + 1, 0))
    gain = accepted * (added.accepted[1 - side] * S // standing) // S
    assert now == accepted + gain


@PROPERTY
@given(KAPPA, AMOUNT, BLOCKS, OFFER)
def test_the_headroom_is_accepted_whole_and_one_more_is_not(
    kappa: int, seed: int, blocks: list[list[tuple[int, int]]], last: tuple[int, int]
) -> None:
    market = played(fresh(kappa, seed), blocks)
    number, side = len(blocks) + 1, last[0]
    now = Moment(number, 0)
    market, _ = offer(market, last[0], last[1], number)
    room = headroom(market, now)[side]
    if room:
        after, _ = offer(market, side, room, number)
        assert headroom(after, now)[side] == 0
        _, vintage = match(after)
        assert vintage.accepted is not None
        assert vintage.accepted[side] == vintage.offered[side]
    over, _ = offer(market, side, room + 1, number)
    _, vintage = match(over)
    assert vintage.accepted is not None
    assert vintage.accepted[side] < vintage.offered[side]


@PROPERTY
@given(KAPPA, AMOUNT, BLOCKS, st.lists(OFFER, min_size=2, max_size=4))
def test_order_inside_a_block_decides_less_than_one_unit(
    kappa: int, seed: int, blocks: list[list[tuple[int, int]]], crowd: list[tuple[int, int]]
) -> None:
    """The books do not depend on the order. An entry's accepted part, rounded from running totals, lies less
    than one unit from its exact proportion in any order, so two orders differ by at most one unit."""
    base = played(fresh(kappa, seed), blocks)
    number = len(blocks) + 1
    books, parts = set(), [set[int]() for _ in crowd]
    for order in permutations(range(len(crowd))):
        market, positions = base, {}
        for n in order:
            side, amount = crowd[n]
            market, before = offer(market, side, amount, number)
            positions[n] = Position(n, 1, "b", side, amount, number, before)
        market, vintage = match(market)
        books.add(market.books)
        assert vintage.accepted is not None
        for n, (side, amount) in enumerate(crowd):
            part = accepted_of(positions[n], vintage)
            assert part is not None
            assert abs(part * vintage.offered[side] - amount * vintage.accepted[side]) < vintage.offered[side]
            parts[n].add(part)
    assert len(books) == 1
    assert all(max(part) - min(part) <= 1 for part in parts)


def test_the_model_states_the_worked_example() -> None:
    """The model itself, pinned to the numbers of the mechanism's text."""
    token = 10**6
    model = Model(kappa=30, fee_bps=0, seed=10 * token, opener="o", side_cap=2**48 - 1)
    for block, (side, amount) in enumerate(((0, 20), (1, 30), (1, 40), (0, 50), (1, 10)), start=1):
        model.enter("b", side, amount * token, block)
    model.freeze()
    model.resolve(0)
    assert [model.due(e).gross for e in model.entries] == [44_583_333, 0, 69_166_666, 0, 0, 56_250_000, 0]
    assert model.residue() == 1
    assert sum(isinstance(step, NextBlock) for step in generate(Random(1)).steps) > 0
