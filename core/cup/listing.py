"""A listed agent market as a paper market: the same id, outcomes and times, and its weights on paper.

Every word comes from the listing's specification, as on the agent surface; nothing that its lister wrote is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from core.agent.document import Specification, listed_document
from core.contracts.statuses import MarketKind

# How much heavier than on the listed market an outcome is before the first trade, in pUSDC for dollars.
WEIGHTS_TIMES: Final = 10
_UNITS_A_CENT: Final = 10**4

_SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def is_slug(text: str) -> bool:
    """Check whether a paper market can have this slug. Other texts need no lookup, and some cannot be looked up:
    PostgreSQL takes no NUL in text."""
    return _SLUG.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class PaperSide:
    """One outcome; `key` is what a trade names."""

    key: str
    label: str
    short_label: str

    def body(self) -> dict[str, str]:
        return {"key": self.key, "label": self.label, "shortLabel": self.short_label}


@dataclass(frozen=True, slots=True)
class PaperListing:
    """A paper market before its first trade. Trades end at `closes_at`; `ends_at` is the moment that decides, and a
    direction is measured from `start_at`."""

    market_key: bytes
    market_id: str
    slug: str
    kind: MarketKind
    question: str
    short_title: str
    token_symbol: str
    sides: tuple[PaperSide, ...]
    weights_cents: tuple[int, ...]
    opens_at: datetime
    closes_at: datetime
    start_at: datetime | None
    ends_at: datetime


def listing_of(market_key: bytes, spec: Specification, weights: Sequence[int], feed_key: str | None) -> PaperListing:
    """`weights`: the listed market's, in units. `feed_key`: what its feed observes, None when no deployment says so."""
    words = listed_document(market_key, spec, feed_key)
    return PaperListing(
        market_key=market_key,
        market_id=words.id,
        slug=words.id,
        kind=spec.kind,
        question=words.question,
        short_title=words.short_title,
        token_symbol=words.token_symbol,
        sides=tuple(PaperSide(each.key, each.label, each.short_label) for each in words.outcomes),
        weights_cents=tuple(paper_weight(int(weight)) for weight in weights),
        opens_at=_moment(spec.opens_at),
        closes_at=_moment(spec.closes_at),
        start_at=_moment(spec.start_at) if spec.kind is MarketKind.DIRECTION else None,
        ends_at=_moment(spec.ends_at),
    )


def paper_weight(units: int) -> int:
    """Return the weight in cents, rounded down, at least one: a price needs some weight."""
    return max(1, units * WEIGHTS_TIMES // _UNITS_A_CENT)


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
