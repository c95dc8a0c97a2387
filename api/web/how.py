"""How it works, with the worked example computed by the same code that mirrors the contract, and drawn."""

from __future__ import annotations

from dataclasses import dataclass

from api.stock.facts import SIDES
from api.web import figures
from api.web.charts import Chart, ChartLine, Level, Mark, Tone
from api.web.templating import Pages
from core.money import USD
from core.stock.classic import classic_payout
from core.stock.vested import (
    DOWN,
    MAX_SIDE_CAP,
    UP,
    Position,
    S,
    Terms,
    VestedMarket,
    Vintage,
    gross_payout,
    match,
    offer,
    open_books,
    seed_vintage,
)

SEED = 10 * USD
ENTRIES = (("A", UP, 20), ("B", DOWN, 30), ("C", DOWN, 40), ("D", UP, 50), ("E", DOWN, 10))
NOBODY = bytes(20)  # who holds a position plays no part in the example


@dataclass(frozen=True, slots=True)
class ExampleStep:
    """One entry of the example. Amounts in units; the accumulators times 1e18, as they stand after it."""

    name: str
    side: str
    offered: int
    up: int
    down: int
    promised_up: str
    promised_down: str


@dataclass(frozen=True, slots=True)
class ExamplePayout:
    """What a position is paid if its side wins, beside what an ordinary pool would pay it."""

    name: str
    side: str
    stake: int
    vested: int
    ordinary: int
    multiple: str
    path: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """A market played through: its entries, and what each is paid."""

    steps: tuple[ExampleStep, ...]
    paid: tuple[ExamplePayout, ...]
    pool: int


def work_through() -> WorkedExample:
    """The example of the design: seed 10 and 10, then five bets, each in a block of its own; no fee."""
    terms = Terms(1, NOBODY, NOBODY, 10**9, 1, 0, 30, SEED, USD, 1_000 * USD, MAX_SIDE_CAP)
    market = VestedMarket(terms, open_books(SEED))
    positions: list[tuple[str, Position, Vintage]] = [
        (f"seed {SIDES[side]}", Position(side, 1, NOBODY, side, SEED, 0, 0), seed_vintage(SEED)) for side in (UP, DOWN)
    ]
    steps = [_step("seed", "both", 2 * SEED, market)]
    paths: dict[str, list[int]] = {name: [gross_payout(market, each, vintage)] for name, each, vintage in positions}
    for block, (name, side, stake) in enumerate(ENTRIES, 1):
        market, before = offer(market, side, stake * USD, block)
        market, matched = match(market)
        positions.append((name, Position(block + 1, 1, NOBODY, side, stake * USD, block, before), matched))
        paths[name] = []
        for holder, each, vintage in positions:
            paths[holder].append(gross_payout(market, each, vintage))
        steps.append(_step(name, SIDES[side], stake * USD, market))
    paid = tuple(
        ExamplePayout(
            name,
            SIDES[each.outcome],
            each.offered,
            paths[name][-1],
            classic_payout(each.offered, market.pool, market.books[each.outcome].principal, 0),
            _multiple(paths[name][-1], each.offered),
            tuple(paths[name]),
        )
        for name, each, _ in positions
    )
    return WorkedExample(tuple(steps), paid, market.pool)


def _step(name: str, side: str, offered: int, market: VestedMarket) -> ExampleStep:
    up, down = market.books
    return ExampleStep(name, side, offered, up.principal, down.principal, _acc(up.acc), _acc(down.acc))


def _acc(value: int) -> str:
    """A promise per token, to four decimals, rounded down."""
    whole, rest = divmod(value * 10_000 // S, 10_000)
    return f"{whole}.{rest:04d}"


def _multiple(paid: int, stake: int) -> str:
    hundredths = paid * 100 // stake
    return f"{hundredths // 100}.{hundredths % 100:02d}\N{MULTIPLICATION SIGN}"


def example_chart(example: WorkedExample) -> Chart:
    """What A and D would be paid if UP won, after each entry: both only rise, and the later one starts at its stake."""
    shown = [each for each in example.paid if each.name in ("A", "D")]
    last = len(ENTRIES)
    lines = []
    levels = []
    for each in shown:
        first = last + 1 - len(each.path)
        points = [(first + place, value) for place, value in enumerate(each.path)]
        tone: Tone = "up" if each.name == "A" else "main"
        lines.append(ChartLine(points, tone))
        levels.append(Level(each.path[-1], f"{each.name} {figures.plain(each.path[-1] // 10_000 * 10_000)}", tone))
    return Chart(
        title="What A and D are promised if UP wins",
        said="A begins at 20 and rises to 69.16 as the other side bets; D begins at its own 50 and rises to 56.25.",
        lines=lines,
        start=1,
        end=last,
        levels=levels,
        marks=[Mark(at, name, timed=False) for at, (name, _, _) in enumerate(ENTRIES, 1)],
        floor=0,
    )


def render_how(pages: Pages) -> bytes:
    example = work_through()
    return pages.render("how.html", path="/how", example=example, chart=example_chart(example).draw("example"))
