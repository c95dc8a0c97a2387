"""Draws the plots of docs/fairness.md: `python drawing.py FIGURES FOLDER`, in the environment of `locks/study.txt`.

It stands alone, since that environment has matplotlib and nothing of ours. The same figures give the same bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update(
    {
        "svg.hashsalt": "fairness",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "sans-serif"],
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "figure.facecolor": "white",
        "legend.frameon": False,
    }
)

import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen first

BLUE, ORANGE, GREEN, GREY = "#2459a9", "#c9641c", "#2e7d4f", "#6b7785"
NAMES = {
    "vested/bell": ("stock market (vested), to the bell", BLUE, "-"),
    "classic/bell": ("ordinary pool, to the bell", ORANGE, "-"),
    "shares/half": ("agent market, threshold or range", BLUE, "-"),
    "shares/before": ("agent market, direction", GREEN, "-"),
    "classic/half": ("ordinary pool, to half of the time", ORANGE, "--"),
}


def percent(axes: Any, which: str = "y") -> None:
    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))


def by_time(figures: dict[str, Any]) -> Any:
    """What the crowd can expect by when it bets."""
    drawn, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axes, names in zip(
        panels, (("vested/bell", "classic/bell"), ("shares/half", "shares/before", "classic/half")), strict=True
    ):
        for name in names:
            label, colour, style = NAMES[name]
            bins = figures["crowds"][name]["bins"]
            at = [(place + 0.5) / len(bins) for place in range(len(bins))]
            mean, around = [each["mean"] for each in bins], [each["pm"] for each in bins]
            low = [value - width for value, width in zip(mean, around, strict=True)]
            high = [value + width for value, width in zip(mean, around, strict=True)]
            axes.plot(at, mean, style, color=colour, label=label)
            axes.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.set_xlabel("when the bet comes, among all bets")
        percent(axes, "x")
        percent(axes)
        axes.legend(loc="upper center")
    panels[0].set_ylabel("expected return of the stake")
    return drawn


def multiples(figures: dict[str, Any]) -> Any:
    """What a right bet is paid, and how sure one has to be."""
    drawn, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    for name in ("vested/bell", "classic/bell", "shares/half"):
        label, colour, style = NAMES[name]
        colour = GREEN if name == "shares/half" else colour
        paid = figures["crowds"][name]["multiples"]
        at = [(place + 0.5) / len(paid) for place in range(len(paid))]
        left.plot(at, paid, style, color=colour, label=label)
        right.plot(at, [min(1.0, 1 / each) for each in paid], style, color=colour)
    left.set_ylabel("a right bet is paid, times its stake")
    left.set_ylim(bottom=0.9)
    left.legend(loc="upper right")
    right.set_ylabel("break-even probability")
    percent(right)
    for axes in (left, right):
        axes.set_xlabel("when the bet comes, among all bets")
        percent(axes, "x")
    return drawn


def last_one(figures: dict[str, Any]) -> Any:
    """What the last bettor takes from the crowd, by what he knows."""
    drawn, axes = plt.subplots(figsize=(9, 3.4))
    names = ("vested/bell", "classic/bell", "shares/half", "shares/before")
    cases = (("nobody", GREY), ("last, exact", BLUE), ("knows, last", ORANGE))
    labels = {"nobody": "nobody", "last, exact": "knows the probability", "knows, last": "knows the result"}
    for turn, (case, colour) in enumerate(cases):
        values = [
            figures["crowds"][name]["all"] if case == "nobody" else figures["roles"][name][case]["crowd"]
            for name in names
        ]
        axes.bar(
            [place + (turn - 1) * 0.26 for place in range(len(names))],
            [each["mean"] for each in values],
            0.25,
            yerr=[each["pm"] for each in values],
            color=colour,
            error_kw={"linewidth": 0.8},
            label=labels[case],
        )
    short = (
        "stock market\n(vested)",
        "ordinary pool\nto the bell",
        "agent market\nthreshold",
        "agent market\ndirection",
    )
    axes.set_xticks(range(len(names)), short)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_ylabel("what the crowd can expect")
    axes.legend(title="the last bettor", loc="lower left")
    axes.grid(visible=False, axis="x")
    percent(axes)
    return drawn


def seed(figures: dict[str, Any]) -> Any:
    """Where the losers' money goes: by vintages, by kappa, by seed."""
    drawn, panels = plt.subplots(1, 3, figsize=(9, 3.2))
    sweeps = figures["sweep"]
    labels = {"blocks": "blocks that all bets come in", "kappa": "kappa", "seed": "seed for each outcome, USD"}
    for axes, (parameter, label) in zip(panels, labels.items(), strict=True):
        cells = {int(value): cell for value, cell in sweeps[parameter].items() if cell["volume"]["mean"]}
        scale = 1_000_000 if parameter == "seed" else 1
        at = sorted(cells)
        share = [cells[value]["seed"]["mean"] / cells[value]["volume"]["mean"] for value in at]
        early = [cells[value]["quarters"][0]["mean"] for value in at]
        late = [cells[value]["quarters"][-1]["mean"] for value in at]
        shown = [value / scale for value in at]
        axes.semilogx(shown, share, "-o", color=ORANGE, markersize=3, label="seed's gain, of all bets")
        axes.semilogx(shown, early, "-o", color=BLUE, markersize=3, label="return, first quarter")
        axes.semilogx(shown, late, "--o", color=BLUE, markersize=3, label="return, last quarter")
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.set_xlabel(label)
        percent(axes)
    panels[0].legend(fontsize=7)
    return drawn


def watching(figures: dict[str, Any]) -> Any:
    """What watching and pushing adds to a bet, by how much stands on the market."""
    drawn, axes = plt.subplots(figsize=(6.5, 3.2))
    added = {int(factor): each for factor, each in figures["attacks"]["watching"].items()}
    at = sorted(added)
    axes.plot(at, [added[factor]["nobody"] for factor in at], "-o", color=BLUE, markersize=3, label="nobody arbitrages")
    label = "every block is arbitraged"
    axes.plot(at, [added[factor]["every"] for factor in at], "-o", color=ORANGE, markersize=3, label=label)
    fee = figures["attacks"]["fees"]["deployed"]
    axes.axhline(fee, color=GREY, linewidth=1, label="the fee of the bet")
    axes.axhline(fee / 2, color=GREY, linewidth=1, linestyle="--", label="half of it")
    axes.set_xlabel("pot, in phi * D1 * sd")
    axes.set_ylabel("the best attack adds")
    axes.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=1))
    axes.legend()
    return drawn


PLOTS = {"by-time": by_time, "multiples": multiples, "last": last_one, "seed": seed, "watching": watching}


def main(data: str, folder: str, digest: str) -> None:
    figures = json.loads(Path(data).read_text())["whole"]
    for name, plot in PLOTS.items():
        drawn = plot(figures)
        drawn.tight_layout()
        drawn.savefig(
            Path(folder) / f"fairness-{name}.svg",
            metadata={"Date": None, "Creator": "vpm study", "Description": f"figures {digest}"},
        )
        plt.close(drawn)


if __name__ == "__main__":
    main(*sys.argv[1:])
