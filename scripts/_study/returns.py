"""What bettors can expect: the crowd by when it came, those beside it, and how parameters of the venue move both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from core.money import USD
from scripts._study.mechanisms import Parameters
from scripts._study.playing import Guest, PlayedBet, Setting, played
from scripts._study.roles import FIRST_STRADDLE, ROLES, SNIPER
from scripts._study.tallies import Mean, Ratio
from scripts._study.world import BEFORE, BELL, HALF, Bettors, Draw, drawn

SEED: Final = "fairness"
QUARTERS: Final = 4
BINS: Final = 20

SETTINGS: Final = {
    "vested/bell": Setting("vested", BELL),
    "vested/before": Setting("vested", BEFORE),
    "classic/bell": Setting("classic", BELL),
    "classic/half": Setting("classic", HALF),
    "shares/half": Setting("shares", HALF),
    "shares/before": Setting("shares", BEFORE),
}
"""The first is what stock markets are, the last two what agent markets are; the others are there to compare."""


@lru_cache(maxsize=5_000)
def market(number: int, crowd: Bettors) -> Draw:
    """The same chance in every cell, so that cells differ by what they are about and not by luck."""
    return drawn(f"{SEED}:{number}", crowd)


def crowds(markets: int) -> dict[str, Any]:
    return {name: crowd(setting, markets) for name, setting in SETTINGS.items()}


def crowd(setting: Setting, markets: int) -> dict[str, Any]:
    """What the crowd can expect by when it came, and what the venue has of it."""
    everybody, first, last = Ratio(), Ratio(), Ratio()
    quarters, bins = [Ratio() for _ in range(QUARTERS)], [Ratio() for _ in range(BINS)]
    right = [[0.0, 0.0] for _ in range(BINS)]
    fees, seed, volume = Mean(), Mean(), Mean()
    offered = taken = 0
    for number in range(markets):
        result = played(setting, market(number, setting.crowd))
        _add(everybody, result.crowd)
        _add(first, result.crowd[:1])
        _add(last, result.crowd[-1:])
        for ratios, count in ((quarters, QUARTERS), (bins, BINS)):
            for ratio, some in zip(ratios, _split(result.crowd, count), strict=True):
                _add(ratio, some)
        for sums, some in zip(right, _split(result.crowd, BINS), strict=True):
            sums[0] += sum(each.expected for each in some)
            sums[1] += sum(each.taken * each.right for each in some)
        fees.add(result.fees)
        seed.add(result.seed_gain)
        volume.add(sum(each.taken for each in result.crowd) / USD)
        offered += sum(each.offered for each in result.crowd)
        taken += sum(each.taken for each in result.crowd)
    return {
        "all": everybody.summary(),
        "first": first.summary(),
        "last": last.summary(),
        "quarters": [each.summary() for each in quarters],
        "bins": [each.summary() for each in bins],
        "multiples": [round(paid / staked, 4) if staked else 0.0 for paid, staked in right],
        "fees": fees.summary(),
        "seed": seed.summary(),
        "volume": volume.summary(),
        "refused": round(1 - taken / offered, 5),
    }


def _split(outcomes: Sequence[PlayedBet], count: int) -> list[list[PlayedBet]]:
    parts: list[list[PlayedBet]] = [[] for _ in range(count)]
    for each in outcomes:
        parts[int(each.at * count)].append(each)
    return parts


def _add(ratio: Ratio, outcomes: Iterable[PlayedBet]) -> None:
    bets = list(outcomes)
    ratio.add(sum(each.expected for each in bets) / USD, sum(each.taken for each in bets) / USD)


def roles(markets: int) -> dict[str, Any]:
    return {name: {each.name: beside(setting, each, markets) for each in ROLES} for name, setting in SETTINGS.items()}


def beside(setting: Setting, actor: Guest, markets: int) -> dict[str, Any]:
    """What somebody beside the crowd can expect, and what the crowd expects with him."""
    own, others, gain = Ratio(), Ratio(), Mean()
    for number in range(markets):
        result = played(setting, market(number, setting.crowd), actor)
        _add(own, result.actor)
        _add(others, result.crowd)
        gain.add(sum(each.expected - each.taken for each in result.actor) / USD)
    return {"return": own.summary(), "gain": gain.summary(), "crowd": others.summary()}


# ---------------------------------------------------------------- The venue's parameters


def sweep(markets: int) -> dict[str, Any]:
    """One parameter at a time, everything else as deployed."""
    vested, classic, half, before = (
        SETTINGS[name] for name in ("vested/bell", "classic/bell", "shares/half", "shares/before")
    )
    return {
        "kappa": _swept(vested, "kappa", (1, 2, 3, 5, 10, 30, 100), markets),
        "seed": _swept(vested, "seed", [each * USD for each in (1, 3, 10, 30, 100)], markets),
        "blocks": _swept(vested, "blocks", (1, 2, 4, 10, 40, 5_000), markets),
        "together": {
            f"{kappa}/{seed}": _swept(
                replace(vested, parameters=Parameters(kappa=kappa, seed=seed * USD)), "blocks", (2, 10, 5_000), markets
            )
            for kappa, seed in ((30, 10), (10, 3), (10, 1))
        },
        "before": {
            f"{before:g}": _summary(replace(vested, regime=replace(BELL, before=before)), markets)
            for before in (0.0, 0.2, 0.5, 0.8)
        },
        "fee": {
            name: _swept(setting, "fee_bps", (0, 100, 200, 500), markets)
            for name, setting in (("vested/bell", vested), ("shares/half", half))
        },
        "weight": {
            name: _swept(setting, "weight", [each * USD for each in (1, 3, 10, 30, 100)], markets)
            for name, setting in (("shares/half", half), ("shares/before", before))
        },
        "bets": {
            name: {str(bets): _summary(replace(setting, crowd=Bettors(bets=bets)), markets) for bets in (10, 40, 160)}
            for name, setting in (("vested/bell", vested), ("classic/bell", classic), ("shares/half", half))
        },
        "crowd": {
            name: {
                f"{by_value:g}": _summary(replace(setting, crowd=Bettors(by_value=by_value)), markets)
                for by_value in (0.0, 0.5, 1.0)
            }
            for name, setting in (
                ("vested/bell", vested),
                ("classic/bell", classic),
                ("shares/half", half),
                ("shares/before", before),
            )
        },
    }


def _swept(setting: Setting, parameter: str, values: Iterable[int], markets: int) -> dict[str, Any]:
    return {
        str(value): _summary(replace(setting, parameters=replace(setting.parameters, **{parameter: value})), markets)
        for value in values
    }


def _summary(setting: Setting, markets: int) -> dict[str, Any]:
    alone = crowd(setting, markets)
    kept = ("all", "first", "quarters", "fees", "seed", "volume", "refused")
    with_sniper, straddle = (beside(setting, each, markets) for each in (SNIPER, FIRST_STRADDLE))
    return {
        **{name: alone[name] for name in kept},
        "sniper": with_sniper,
        "straddle": straddle["return"],
    }
