"""CursorCodec of the market list and of positions: opaque, and self-checking, so that a made-up one is refused."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Generic, TypeVar

from api.agent.facts import ListedMarket
from api.problems import invalid_part

# A market's place in the list: soonest deadline first, then by listing.
MarketSortKey = tuple[int, int, int]
# Where a stake stands among a wallet's: its block and its log's number there.
StakeSortKey = tuple[int, int]
P = TypeVar("P", MarketSortKey, StakeSortKey)

_CHECK_BYTES = 6


def market_sort_key(market: ListedMarket) -> MarketSortKey:
    return (market.closes_at, *market.listed_order)


@dataclass(frozen=True, slots=True)
class CursorCodec(Generic[P]):
    """The cursors of one list, which no other list takes; `length`: of its places."""

    name: bytes
    length: int

    def encode(self, place: P) -> str:
        """Return the cursor of the page behind a place."""
        text = ".".join(map(str, place)).encode()
        return base64.urlsafe_b64encode(self._check(text) + text).decode().rstrip("=")

    def decode(self, cursor: str) -> P:
        """Return the place of a cursor; 400 for anything that `encode` did not make."""
        try:
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            check, text = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
            parts = tuple(int(part) for part in text.split(b"."))
        except (binascii.Error, ValueError):
            raise _bad() from None
        if check != self._check(text) or len(parts) != self.length:
            raise _bad()
        return parts  # type: ignore[return-value]  # as many as the list's places have

    def _check(self, text: bytes) -> bytes:
        return hashlib.blake2b(text, digest_size=_CHECK_BYTES, person=self.name).digest()


MARKETS: CursorCodec[MarketSortKey] = CursorCodec(b"agent markets", 3)
STAKES: CursorCodec[StakeSortKey] = CursorCodec(b"agent positions", 2)


def _bad() -> Exception:
    return invalid_part("query parameter", "cursor", "it is none that this API gave; leave it out for the first page")
