"""The roulette wheel: 37 pockets, the 42 markets of a spin, and the verifiable draw."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from core.hexadecimal import hex_of

POCKETS: Final = 37
REDS: Final = frozenset({1, 3, 5, 7, 9, 12, 14, 16, 18, 19, 21, 23, 25, 27, 30, 32, 34, 36})

MIN_BET_CENTS: Final = 10 * 100
MAX_BET_CENTS: Final = 500 * 100
# For all bets of one wallet on one round.
MAX_ROUND_CENTS: Final = 2000 * 100


@dataclass(frozen=True, slots=True)
class WheelOutcome:
    key: str
    label: str
    pockets: frozenset[int]

    @property
    def true_pct_hundredths(self) -> int:
        """Return the true chance (k/37 for k winning pockets) in hundredths of a percent, rounded to the nearest."""
        return (len(self.pockets) * 20_000 + POCKETS) // (2 * POCKETS)


@dataclass(frozen=True, slots=True)
class WheelMarket:
    """A market on the wheel. Every pocket belongs to exactly one of its outcomes."""

    id: str
    question: str
    short: str
    outcomes: tuple[WheelOutcome, ...]


_ALL: Final = frozenset(range(POCKETS))
_ZERO: Final = frozenset({0})
_BLACKS: Final = _ALL - REDS - _ZERO


def _group(name: str, question: str, *outcomes: tuple[str, str, frozenset[int]]) -> WheelMarket:
    made = tuple(WheelOutcome(f"{name}:{key}", label, pockets) for key, label, pockets in outcomes)
    return WheelMarket(name, question, name.upper(), made)


def _number(number: int) -> WheelMarket:
    hit = frozenset({number})
    return WheelMarket(
        f"num:{number}",
        f"Will the ball land on {number}?",
        f"#{number}",
        (WheelOutcome(f"num:{number}:yes", "HITS", hit), WheelOutcome(f"num:{number}:no", "MISSES", _ALL - hit)),
    )


def _every_third(first: int) -> frozenset[int]:
    return frozenset(range(first, POCKETS, 3))


MARKETS: Final[tuple[WheelMarket, ...]] = (
    _group(
        "colour",
        "Which colour will the ball land on?",
        ("red", "RED", REDS),
        ("black", "BLACK", _BLACKS),
        ("green", "GREEN 0", _ZERO),
    ),
    _group(
        "dozen",
        "Which dozen will the ball land in?",
        ("1", "1-12", frozenset(range(1, 13))),
        ("2", "13-24", frozenset(range(13, 25))),
        ("3", "25-36", frozenset(range(25, 37))),
        ("zero", "ZERO", _ZERO),
    ),
    _group(
        "half",
        "Which half will the ball land in?",
        ("low", "LOW 1-18", frozenset(range(1, 19))),
        ("high", "HIGH 19-36", frozenset(range(19, 37))),
        ("zero", "ZERO", _ZERO),
    ),
    _group(
        "parity",
        "Odd or even?",
        ("odd", "ODD", frozenset(range(1, 37, 2))),
        ("even", "EVEN", frozenset(range(2, 37, 2))),
        ("zero", "ZERO", _ZERO),
    ),
    _group(
        "column",
        "Which column will the ball land in?",
        ("1", "COLUMN 1", _every_third(1)),
        ("2", "COLUMN 2", _every_third(2)),
        ("3", "COLUMN 3", _every_third(3)),
        ("zero", "ZERO", _ZERO),
    ),
    *(_number(number) for number in range(POCKETS)),
)

MARKET_OF_KEY: Final[Mapping[str, WheelMarket]] = MappingProxyType(
    {outcome.key: market for market in MARKETS for outcome in market.outcomes}
)
OUTCOMES: Final[Mapping[str, WheelOutcome]] = MappingProxyType(
    {outcome.key: outcome for market in MARKETS for outcome in market.outcomes}
)

# Higher words would favour low pockets, so they are skipped.
_FAIR_BELOW: Final = POCKETS * (2**32 // POCKETS)


def commitment_of(seed: bytes) -> bytes:
    return hashlib.sha256(seed).digest()


def pocket_of(seed: bytes, round_no: int, beacon_hash: bytes) -> int:
    """Return the pocket that the seed and the beacon determine. It is the first 32-bit word (big-endian) of
    HMAC-SHA256(seed, "roundNo:beaconHash") that is below the fair bound, modulo 37. The beacon hash is written in
    lower-case hex with the prefix 0x. The chance that all eight words are too high is below 1 in 10**60."""
    digest = hmac.new(seed, f"{round_no}:{hex_of(beacon_hash)}".encode(), hashlib.sha256).digest()
    words = (int.from_bytes(digest[at : at + 4]) for at in range(0, 32, 4))
    return next(word for word in words if word < _FAIR_BELOW) % POCKETS


@dataclass(frozen=True, slots=True)
class WheelStake:
    wallet: str
    bet_key: str
    cents: int


def bets_hash(round_no: int, stakes: Iterable[WheelStake]) -> bytes:
    """Return the SHA-256 of a text: the round's number, then one line `wallet:betKey:cents` per bet. The lines are
    sorted by their bytes."""
    lines = sorted(f"{each.wallet}:{each.bet_key}:{each.cents}" for each in stakes)
    return hashlib.sha256("\n".join([str(round_no), *lines]).encode()).digest()


@dataclass(frozen=True, slots=True)
class SettledStake:
    stake: WheelStake
    status: str  # won, lost or refunded
    paid_cents: int


def settle(stakes: list[WheelStake], pocket: int) -> list[SettledStake]:
    """Return each bet with its payout. Winners split their market's pool in proportion to their stakes, rounded down. A
    market without a winning bet is refunded. The remainders of pools go to the mint."""
    pools: dict[str, int] = {}
    winning: dict[str, int] = {}
    for stake in stakes:
        market = MARKET_OF_KEY[stake.bet_key]
        pools[market.id] = pools.get(market.id, 0) + stake.cents
        if pocket in OUTCOMES[stake.bet_key].pockets:
            winning[market.id] = winning.get(market.id, 0) + stake.cents
    done: list[SettledStake] = []
    for stake in stakes:
        market = MARKET_OF_KEY[stake.bet_key]
        won = winning.get(market.id, 0)
        if won == 0:
            done.append(SettledStake(stake, "refunded", stake.cents))
        elif pocket in OUTCOMES[stake.bet_key].pockets:
            done.append(SettledStake(stake, "won", stake.cents * pools[market.id] // won))
        else:
            done.append(SettledStake(stake, "lost", 0))
    return done
