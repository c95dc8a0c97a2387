"""A listed agent market as a paper market: the same slug, outcomes and deadline, taken from the listing itself.

The listing's metadata is JSON written by the lister: `slug`, `question`, and as it has them `id`, `shortTitle`,
`tokenSymbol` (or `symbol`, or `symbols`), and the outcomes as `outcomes` ([{key, label, shortLabel}]) or `labels`
(texts). What it lacks is filled in as the agent surface fills it in, so that both name the same sides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from eth_utils.crypto import keccak

VIRTUAL_CENTS: Final = 2_000 * 100
"""What damps the price of a paper market: 2,000 pUSDC over all outcomes."""

THRESHOLD: Final = 0
RANGE: Final = 1
DIRECTION: Final = 2

_SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+<>=-]{0,63}")
_FIXED_KEYS: Final[Mapping[int, tuple[str, str]]] = {THRESHOLD: ("yes", "no"), DIRECTION: ("up", "down")}


def is_slug(text: str) -> bool:
    """Whether a paper market can have this slug. What is none need not be looked up, nor can all of it be: a NUL is no
    text to PostgreSQL."""
    return _SLUG.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Side:
    """One outcome; `key` is what a trade names."""

    key: str
    label: str
    short_label: str

    def body(self) -> dict[str, str]:
        return {"key": self.key, "label": self.label, "shortLabel": self.short_label}


@dataclass(frozen=True, slots=True)
class Listing:
    market_key: bytes
    market_id: str
    slug: str
    kind: int
    question: str
    short_title: str
    token_symbol: str
    sides: tuple[Side, ...]
    opens_at: datetime
    deadline_at: datetime


def listing_of(
    market_key: bytes, kind: int, outcomes: int, document: Mapping[str, Any] | None, opens_at: int, closes_at: int
) -> Listing | None:
    """None when the listing cannot be traded by name: its slug does not fit a path, or keys a message.

    opens_at, closes_at: Unix seconds.
    """
    document = document or {}
    market_id = _market_id(market_key, document)
    slug = _text(document.get("slug")) or market_id
    if not is_slug(slug):
        return None
    sides = _sides(kind, outcomes, document)
    if sides is None:
        return None
    question = _text(document.get("question")) or slug
    return Listing(
        market_key=market_key,
        market_id=market_id,
        slug=slug,
        kind=kind,
        question=question,
        short_title=_text(document.get("shortTitle")) or question,
        token_symbol=_symbol(document),
        sides=sides,
        opens_at=datetime.fromtimestamp(opens_at, UTC),
        deadline_at=datetime.fromtimestamp(closes_at, UTC),
    )


def _market_id(market_key: bytes, document: Mapping[str, Any]) -> str:
    """The readable id whose keccak256 is the id on chain, when the listing tells it; else the hash itself."""
    claimed = _text(document.get("id")) or _text(document.get("slug"))
    return claimed if claimed and keccak(text=claimed) == market_key else "0x" + market_key.hex()


def _symbol(document: Mapping[str, Any]) -> str:
    symbols = document.get("symbols")
    first = symbols[0] if isinstance(symbols, list) and symbols else None
    for given in (document.get("tokenSymbol"), document.get("symbol"), first):
        symbol = _text(given).removeprefix("$").upper()
        if symbol:
            return symbol
    return "UNKNOWN"


def _sides(kind: int, outcomes: int, document: Mapping[str, Any]) -> tuple[Side, ...] | None:
    listed = document.get("outcomes")
    if not isinstance(listed, list):
        listed = document.get("labels")
    if not isinstance(listed, list) or len(listed) != outcomes:
        listed = [None] * outcomes
    # The sides of the two binary kinds are fixed: a trade on `yes` can never mean something else.
    fixed = _FIXED_KEYS.get(kind) if outcomes == 2 else None
    sides = tuple(_side(each, fixed[i] if fixed else None, i) for i, each in enumerate(listed))
    if len({side.key for side in sides}) != len(sides):
        sides = tuple(Side(f"b{i}", side.label, side.short_label) for i, side in enumerate(sides))
    return sides if all(_KEY.fullmatch(side.key) for side in sides) else None


def _side(listed: object, fixed: str | None, position: int) -> Side:
    given: Mapping[str, Any] = listed if isinstance(listed, Mapping) else {"label": listed}
    key = fixed or _text(given.get("key")) or f"b{position}"
    label = _text(given.get("label")) or (fixed.capitalize() if fixed else f"Outcome {position + 1}")
    return Side(key, label, _text(given.get("shortLabel")) or label)


def _text(value: object) -> str:
    return " ".join(value.split())[:500] if isinstance(value, str) else ""
