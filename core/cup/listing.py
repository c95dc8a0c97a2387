"""A paper market made from a listed agent market, with the same id, outcomes and times, and with scaled weights.

All texts come from the specification, as on the agent API; no text of the lister is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from core.agent.document import Specification, listed_document
from core.contracts.statuses import MarketKind

# Factor of the initial weights over those of the listed market, in pUSDC per dollar.
WEIGHTS_TIMES: Final = 10
_UNITS_A_CENT: Final = 10**4

_SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def is_slug(text: str) -> bool:
    """Return whether a paper market can have this slug. Any other text must not be looked up, since PostgreSQL refuses
    NUL in text."""
    return _SLUG.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class PaperSide:
    """One outcome of a paper market. A trade names the outcome by `key`."""

    key: str
    label: str
    short_label: str

    def body(self) -> dict[str, str]:
        return {"key": self.key, "label": self.label, "shortLabel": self.short_label}


@dataclass(frozen=True, slots=True)
class PaperListing:
    """A paper market before its first trade. Trades end at `closes_at`. The reading at `ends_at` decides the market; in
    a direction market it is compared with the one at `start_at`."""

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
    """Make the paper listing of a listed agent market. weights: the agent market's weights in units. feed_key: the
    feed's key, or None if the deployment does not list the feed."""
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
    """Return the weight in cents, rounded down but at least one cent, since a price needs a weight above zero."""
    return max(1, units * WEIGHTS_TIMES // _UNITS_A_CENT)


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
