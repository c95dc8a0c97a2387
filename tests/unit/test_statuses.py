"""The numbers of `core.contracts.statuses` are the contracts' own, and no other module repeats one."""

from __future__ import annotations

import re
from enum import IntEnum

import pytest

from core.contracts import statuses
from core.paths import REPOSITORY

ENUMS = {
    statuses.StockMarketStatus: ("stock/IVestedMarkets.sol", "Status"),
    statuses.PreviewStatus: ("stock/RoundResolver.sol", "Status"),
    statuses.MarketKind: ("agent/IFeedResolver.sol", "Kind"),
    statuses.VoidReason: ("agent/IFeedResolver.sol", "VoidReason"),
    statuses.AgentMarketStatus: ("agent/ISettlementWallet.sol", "MarketStatus"),
    statuses.StakeStatus: ("agent/ISettlementWallet.sol", "StakeStatus"),
    statuses.Form: ("agent/ISettlementWallet.sol", "Form"),
    statuses.RefundReason: ("agent/ISettlementWallet.sol", "RefundReason"),
    statuses.Quality: ("feeds/IPoolFeed.sol", "Quality"),
}
# By the constants of the source, in the order of the enum.
CONSTANTS = {
    statuses.StockOutcome: ("stock/RoundResolver.sol", ("UP", "DOWN", "FLAT", "VOID")),
    statuses.StockReason: (
        "stock/RoundResolver.sol",
        ("BY_ROUNDS", "BY_FLAT", "BY_STALE", "BY_PAUSED", "BY_BAD_ANSWER", "BY_MULTIPLIER", "BY_OUTAGE"),
    ),
    statuses.RoundProblem: (
        "lib/RoundFinder.sol",
        ("OK", "NO_FEED", "LATEST_UNREADABLE", "NO_PHASE", "NO_ROUND", "TOO_MANY_PHASES"),
    ),
}


def declared(source: str, name: str) -> dict[str, int]:
    text = (REPOSITORY / "contracts" / source).read_text()
    match = re.search(rf"enum {name} \{{(.*?)\}}", text, re.DOTALL)
    assert match is not None, f"{source} has no enum {name}"
    names = [each.strip() for each in re.sub(r"//[^\n]*", "", match[1]).split(",")]
    return {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", each).upper(): number for number, each in enumerate(names)}


def of(kind: type[IntEnum]) -> dict[str, int]:
    return {each.name: each.value for each in kind}


@pytest.mark.parametrize("kind", ENUMS, ids=lambda kind: kind.__name__)
def test_an_enum_is_the_contracts_own(kind: type[IntEnum]) -> None:
    assert of(kind) == declared(*ENUMS[kind])


@pytest.mark.parametrize("kind", CONSTANTS, ids=lambda kind: kind.__name__)
def test_numbered_constants_are_the_contracts_own(kind: type[IntEnum]) -> None:
    source, names = CONSTANTS[kind]
    text = (REPOSITORY / "contracts" / source).read_text()
    stated = [int(re.search(rf"uint8 \w+ constant {name} = (\d+);", text)[1]) for name in names]  # type: ignore[index]
    assert stated == [each.value for each in kind]


def test_every_enum_of_the_module_is_looked_at() -> None:
    found = {each for each in vars(statuses).values() if isinstance(each, type) and issubclass(each, IntEnum)}
    assert found - {IntEnum} == ENUMS.keys() | CONSTANTS.keys() | {statuses.Family}


def test_families_are_what_the_lister_takes() -> None:
    text = (REPOSITORY / "contracts" / "stock" / "MarketLister.sol").read_text()
    assert f"LAST_FAMILY = {max(statuses.Family)};" in text
