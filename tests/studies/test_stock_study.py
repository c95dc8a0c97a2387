"""What bettors, the seed and the last bettor can expect on the deployed terms. Markets are played from fixed seeds
through the mirror of the contract; docs/fairness.md has the tables over more of them. The bounds leave room for chance,
but a seed of 10 at kappa 30 would miss them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log

import pytest

from core.contracts.deployments import load_deployment
from core.money import USD
from core.paths import REPOSITORY
from core.stock.likely import PRECISION, SLOTS, STUDY_VOLUME, LikelyResult, likely
from core.stock.vested import DOWN, UP, Moment, Terms, VestedMarket, headroom, match, offer, open_books
from tests.support.market_study import (
    MECHANISMS,
    SETTINGS,
    Bettors,
    CrowdResult,
    Parameters,
    Setting,
    Vested,
    crowd,
    market,
    played,
)

STOCK = load_deployment(REPOSITORY / "deployments" / "stock.json")
SEED, KAPPA = STOCK.param("seedPerLeg"), STOCK.param("kappa")
MARKETS = 150
BELL = SETTINGS["vested/bell"]
LISTED = replace(BELL, parameters=Parameters(kappa=KAPPA, seed=SEED))

pytestmark = pytest.mark.timeout(300)


@lru_cache(maxsize=8)
def measured(setting: Setting) -> CrowdResult:
    return crowd(setting, MARKETS)


def with_cap(usd: int, bets: int = 40) -> Setting:
    return replace(LISTED, parameters=replace(LISTED.parameters, side_cap=usd * USD), crowd=Bettors(bets=bets))


def test_the_study_plays_what_the_venue_lists() -> None:
    assert Parameters() == Parameters(fee_bps=STOCK.param("feeBps"), kappa=KAPPA, seed=SEED)


def test_a_crowd_loses_little_and_the_seed_takes_at_most_three_times_the_fee() -> None:
    found = measured(LISTED)
    assert -0.035 < found.everybody < -0.02
    assert 1 < found.seed / found.fees < 3.2
    assert found.least_seed > 0
    assert found.refused < 0.03
    before = measured(replace(LISTED, parameters=Parameters(kappa=30, seed=10 * USD)))
    assert before.everybody < -0.05
    assert before.seed > 5 * before.fees


def test_a_rush_is_refused_instead_of_eaten_by_the_seed() -> None:
    rushed = measured(replace(LISTED, parameters=replace(LISTED.parameters, blocks=2)))
    assert rushed.everybody > -0.11
    assert rushed.seed < 45
    assert rushed.refused > 0.5


def test_late_bettors_lose_what_they_lose_with_any_seed_and_the_last_ones_little() -> None:
    found = measured(LISTED)
    third, last_quarter = found.quarters[2], found.quarters[3]
    assert -0.35 < third < -0.22
    assert -0.24 < last_quarter < -0.12
    assert found.last > -0.12


@pytest.mark.parametrize(
    ("cap", "bets", "least", "most"),
    [(500, 40, 0.1, 0.3), (1_000, 40, 0, 0.03), (2_500, 40, 0, 0.03), (2_500, 160, 0, 0.1)],
)
def test_the_caps_leave_ordinary_crowds_alone(cap: int, bets: int, least: float, most: float) -> None:
    """A cap of 500 would not, although no push earns under it: bettors who come when a side is full are refused."""
    assert least <= measured(with_cap(cap, bets)).refused <= most
    assert {feed.side_cap_units for feed in STOCK.price_feeds} == {1_000 * USD, 2_500 * USD}


def filled(cap: int, step: int) -> tuple[int, tuple[int, int]]:
    """Fill both sides as one bettor in small steps, a block each. Return the stakes and what is left by winner."""
    play = Vested(Parameters(kappa=KAPPA, seed=SEED, side_cap=cap))
    stakes, block, sides = 0, 0, []
    held = [SEED, SEED]
    while held != [cap, cap]:
        side = UP if held[UP] <= held[DOWN] else DOWN
        amount = min(step, cap - held[side], KAPPA * held[1 - side] - held[side])
        play.enter(side, amount, block)
        sides.append(side)
        held[side] += amount
        stakes += amount
        block += 1
    play.close()
    won = [sum(play.paid(bet, winner) for bet in range(len(sides))) for winner in (UP, DOWN)]
    return stakes, (won[0], won[1])


@pytest.mark.parametrize("cap", [1_000 * USD, 2_500 * USD])
def test_who_fills_both_sides_pays_more_than_an_ordinary_market_brings(cap: int) -> None:
    stakes, left = filled(cap, USD)
    lost = stakes - max(left)
    bill = SEED * log(cap / SEED) + 0.02 * cap
    assert lost == pytest.approx(bill, rel=0.15)
    ordinary = measured(LISTED)
    assert lost > (ordinary.seed + ordinary.fees) * USD


# ---------------------------------------------------------------- Who gains by whom

POOL, HALF, DIRECTION = SETTINGS["classic/bell"], SETTINGS["shares/half"], SETTINGS["shares/before"]
FEE = Parameters().fee_bps / 10_000


def test_in_a_stock_market_the_first_quarter_gains_and_the_third_loses_most() -> None:
    first, *others = measured(LISTED).quarters
    assert first > 0.4
    assert max(others) < 0
    assert min(others) == others[1]


def test_an_ordinary_pool_pays_the_last_and_costs_the_first() -> None:
    found = measured(POOL)
    assert found.quarters[0] < 0 < found.quarters[3]
    assert measured(LISTED).everybody < found.everybody < 0


def test_the_more_bets_come_before_the_open_the_more_the_last_quarter_loses() -> None:
    settings = [replace(LISTED, regime=replace(LISTED.regime, before=before)) for before in (0.0, 0.2, 0.5, 0.8)]
    lost = [-measured(each).quarters[3] for each in settings]
    assert lost == sorted(lost)


def test_in_agent_markets_everybody_together_loses_the_fee_and_the_first_overpays() -> None:
    for setting in (HALF, DIRECTION):
        found = measured(setting)
        assert found.everybody == pytest.approx(-FEE, abs=1e-4)
        assert found.first < -0.2


def test_early_bettors_are_worse_off_on_thresholds_and_better_off_on_directions() -> None:
    threshold, direction = measured(HALF).quarters, measured(DIRECTION).quarters
    assert threshold[0] < threshold[3]
    assert direction[0] > direction[3]


# ---------------------------------------------------------------- Quotes


@dataclass
class QuotedBets:
    """The bets of one tenth of the betting time: the quotes and payouts of the right ones, and the stakes of all."""

    right: float = 0.0
    paid: float = 0.0
    likely: float = 0.0
    staked: float = 0.0
    even: float = 0.0


class QuotedMarket(Vested):
    """A market in which each bet is quoted before it is made."""

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self.quotes: list[tuple[int, int, LikelyResult]] = []

    def enter(self, side: int, amount: int, block: int) -> int:
        self._match(unless=block + 1)
        at = block * SLOTS * PRECISION // self.parameters.blocks
        self.quotes.append((block, side, likely(self._market, side, amount, Moment(block + 1, 0), at, STUDY_VOLUME)))
        return super().enter(side, amount, block)


@pytest.fixture(autouse=True)
def _quoted_markets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MECHANISMS, "quoted", QuotedMarket)


def quoted(bets: int) -> list[QuotedBets]:
    tenths = [QuotedBets() for _ in range(10)]
    setting = replace(LISTED, mechanism="quoted", crowd=Bettors(bets=bets))
    for number in range(MARKETS):
        result = played(setting, market(number, setting.crowd))
        play = result.play
        assert isinstance(play, QuotedMarket)
        for bet, (block, side, found) in enumerate(play.quotes):
            taken, right = play.staked(bet), result.chance if side == UP else 1 - result.chance
            if not taken or found.break_even is None:
                continue
            tenth = tenths[block * 10 // setting.parameters.blocks]
            tenth.right += taken * right
            tenth.paid += play.paid(bet, side) * right
            tenth.likely += found.payout / found.accepted * taken * right
            tenth.staked += taken
            tenth.even += taken * found.break_even / PRECISION
    return tenths


def test_quotes_say_what_right_bets_were_paid_in_played_markets() -> None:
    """Quotes are within ten percent in every tenth of the betting time, and probabilities within five points."""
    for at, each in enumerate(quoted(40)):
        assert 0.88 < each.likely / each.paid < 1.06, at
        assert abs(each.even / each.staked - each.right / each.paid) < 0.05, at


def test_a_market_that_takes_four_times_the_usual_is_quoted_too_low_and_never_too_high() -> None:
    """Its own stakes lower what is still expected and never raise it, so bets on both sides cannot attract the next."""
    assert all(each.likely < 1.02 * each.paid for each in quoted(160))


def test_a_slow_market_is_quoted_by_its_own_pace_soon() -> None:
    for at, each in enumerate(quoted(10)):
        assert 0.9 < each.likely / each.paid < 1.25, at


def test_nothing_is_promised_where_the_other_side_is_full() -> None:
    terms = Terms(1, b"", b"", 10**9, 0, 200, KAPPA, SEED, 1, 2**47, 100 * USD)
    book = VestedMarket(terms, open_books(SEED))
    for block, (side, usd) in enumerate(((UP, 27), (DOWN, 20), (UP, 70)), 1):
        book, _ = offer(book, side, usd * USD, block)
        book, _ = match(book)
    assert headroom(book, Moment(9, 0)) == (0, 77 * USD)
    found = likely(book, DOWN, USD, Moment(9, 0), 0, STUDY_VOLUME)
    assert (found.payout, found.break_even) == (found.accepted, PRECISION)
