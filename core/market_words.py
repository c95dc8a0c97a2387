"""What a listed agent market and its outcomes are called: from the metadata its lister wrote, where that says it in the
right form; what is missing there is worded from the market's terms. Everybody who names a market names it by this.

Feed values have 8 decimals, times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.iso import iso, iso_day
from core.mirror.bet import market_key
from core.mirror.settlement import Kind
from core.money import decimal_text

BINARY_KEYS = {Kind.THRESHOLD: ("yes", "no"), Kind.DIRECTION: ("up", "down")}
FEED_DECIMALS = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    key: str
    label: str
    short_label: str
    lower: int | None = None
    upper: int | None = None
    """Bounds of a bucket in feed units: lower inclusive, upper exclusive, None for an open end."""


def described(
    key: bytes, kind: Kind, target: int, bounds: tuple[int, ...], closes_at: int, document: Mapping[str, Any] | None
) -> tuple[tuple[Outcome, ...], dict[str, str]]:
    """Outcomes and texts of a market, from its metadata where that says them in the right form."""
    given = document or {}
    texts = {name: str(value) for name, value in given.items() if isinstance(value, str) and value}
    claimed = texts.get("id", texts.get("slug", ""))
    identity = claimed if claimed and market_key(claimed) == key else "0x" + key.hex()
    symbol = texts.get("tokenSymbol", texts.get("symbol", "")).removeprefix("$").upper() or "UNKNOWN"
    slug = texts.get("slug", identity)
    by = iso_day(closes_at)
    what = {
        Kind.THRESHOLD: f"Will {symbol} reach {usd_label(target)} by {by}?",
        Kind.RANGE: f"Where will {symbol} be on {by}?",
        Kind.DIRECTION: f"Will {symbol} be higher at {iso(closes_at)} than at the start?",
    }[kind]
    question = texts.get("question", what)
    words = {
        **texts,
        "id": identity,
        "slug": slug,
        "question": question,
        "shortTitle": texts.get("shortTitle", question),
        "summary": texts.get("summary", texts.get("description", question)),
        "tokenSymbol": symbol,
        "chainId": texts.get("chainId", "base"),
        "deadlineLabel": texts.get("deadlineLabel", f"by {by}"),
    }
    return _outcomes(kind, bounds, given.get("outcomes")), words


def _outcomes(kind: Kind, bounds: tuple[int, ...], listed: Any) -> tuple[Outcome, ...]:
    count = len(bounds) + 1 if kind is Kind.RANGE else 2
    lowers: list[int | None] = [None, *bounds] if kind is Kind.RANGE else [None] * count
    uppers: list[int | None] = [*bounds, None] if kind is Kind.RANGE else [None] * count
    given = listed if isinstance(listed, list) and len(listed) == count else [{}] * count
    out = []
    for at, each in enumerate(given):
        own = (
            {name: value for name, value in each.items() if isinstance(value, str) and value}
            if isinstance(each, dict)
            else {}
        )
        lower, upper = lowers[at], uppers[at]
        default = BINARY_KEYS[kind][at] if kind in BINARY_KEYS else f"b{at}"
        # The sides of the two binary kinds are fixed: a bet on `yes` can never mean something else.
        name = default if kind in BINARY_KEYS else own.get("key", default)
        label = own.get("label", _range_label(lower, upper) if kind is Kind.RANGE else default.capitalize())
        out.append(Outcome(name, label, own.get("shortLabel", label), lower, upper))
    if len({each.key for each in out}) != count:  # ambiguous keys would let a bet land elsewhere
        return tuple(
            Outcome(f"b{at}", each.label, each.short_label, each.lower, each.upper) for at, each in enumerate(out)
        )
    return tuple(out)


def _range_label(lower: int | None, upper: int | None) -> str:
    if lower is None:
        return f"below {usd_label(upper or 0)}"
    return f"{usd_label(lower)} or more" if upper is None else f"{usd_label(lower)} to {usd_label(upper)}"


def usd_label(value: int) -> str:
    """A feed value for people: $100M, $2.5B, $0.0412."""
    for unit, name in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if value >= unit * 10**FEED_DECIMALS:
            return f"${decimal_text(value * 100 // unit // 10**FEED_DECIMALS, 2)}{name}"
    return f"${decimal_text(value, FEED_DECIMALS)}"
