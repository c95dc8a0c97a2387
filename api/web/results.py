"""The profit and loss of an address's settled bets, in the order in which their markets ended. It covers the positions
on the portfolio page, so that a long history costs no more than a short one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate

from api.operations import Json
from api.stock.bodies.positions import OwnerBody
from api.web import figures
from api.web.charts import Chart, ChartLine, Level, Tone, Unit
from core.money import USD


@dataclass(frozen=True, slots=True)
class SettledBet:
    """A bet on a market that has ended: its time, the market's end, and the profit (negative for a loss)."""

    entered_at: int
    at: int
    won: int


@dataclass(frozen=True, slots=True)
class Results:
    """The settled bets in both tokens, in the order of the markets' ends."""

    stock: Sequence[SettledBet] = ()
    agent: Sequence[SettledBet] = ()

    @property
    def stock_won(self) -> int:
        return sum(each.won for each in self.stock)

    @property
    def agent_won(self) -> int:
        return sum(each.won for each in self.agent)


def collect_results(stock: OwnerBody, agent: Json | None) -> Results:
    """Collect an address's results from its positions. A refund of a stake that was never accepted counts as
    nothing."""
    bets = [] if agent is None else agent["positions"]
    return Results(
        _in_order(
            SettledBet(each.entered_at or 0, each.final_time, int(each.settlement.net) - int(each.accepted))
            for each in stock.positions
            if not each.open and each.accepted is not None
        ),
        _in_order(
            SettledBet(figures.unix(each["filledAt"]), figures.unix(each["endsAt"]), int(Decimal(each["pnlUsd"]) * USD))
            for each in bets
            if each["status"] != "open"
        ),
    )


def results_chart(results: Results, now: int) -> Chart | None:
    """Chart the running total of each token's results; None if nothing is settled."""
    both = [*results.stock, *results.agent]
    if not both:
        return None
    start = min(each.entered_at for each in both)
    end = max(now, *(each.at for each in both))
    tokens: tuple[tuple[str, Tone, Sequence[SettledBet]], ...]
    tokens = (("USDG", "main", results.stock), ("USDC", "quiet", results.agent))
    lines, levels, sentences = [], [Level(0, "")], []
    for token, tone, some in tokens:
        if some:
            sums = list(accumulate(each.won for each in some))
            points = [(start, 0), *zip((each.at for each in some), sums, strict=True), (end, sums[-1])]
            lines.append(ChartLine(points, tone, label=token))
            levels.append(Level(sums[-1], f"{token} {figures.signed(sums[-1])}", tone))
            sentences.append(f"{figures.signed(sums[-1])} {token} over {len(some)} bet{'' if len(some) == 1 else 's'}")
    return Chart(
        title="Profit and loss, running total",
        summary=f"{' and '.join(sentences)}.",
        lines=lines,
        start=start,
        end=end,
        levels=levels,
        unit=Unit(USD, 2),
    )


def _in_order(results: Iterable[SettledBet]) -> tuple[SettledBet, ...]:
    return tuple(sorted(results, key=lambda each: each.at))
