"""Page cursors of the market list and of positions. A cursor is opaque and has a checksum, so that the API can refuse
invented ones."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Generic, TypeVar

from api.agent.facts import ListedMarket
from api.problems import invalid_part

# Sorts the market list: earliest deadline first, then by listing.
MarketSortKey = tuple[int, int, int]
# Sorts a wallet's stakes: block, then log index.
StakeSortKey = tuple[int, int]
P = TypeVar("P", MarketSortKey, StakeSortKey)

_CHECK_BYTES = 6


def market_sort_key(market: ListedMarket) -> MarketSortKey:
    return (market.closes_at, *market.listed_order)


@dataclass(frozen=True, slots=True)
class CursorCodec(Generic[P]):
    """The encoder and decoder of one list's cursors, which no other list accepts. `length`: the number of parts in the
    list's sort key."""

    name: bytes
    length: int

    def encode(self, place: P) -> str:
        """Return the cursor of the page that begins after a sort key."""
        text = ".".join(map(str, place)).encode()
        return base64.urlsafe_b64encode(self._check(text) + text).decode().rstrip("=")

    def decode(self, cursor: str) -> P:
        """Return the sort key of a cursor. Raise 400 if `encode` did not make the cursor."""
        try:
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            check, text = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
            parts = tuple(int(part) for part in text.split(b"."))
        except (binascii.Error, ValueError):
            raise _bad() from None
        if check != self._check(text) or len(parts) != self.length:
            raise _bad()
        return parts  # type: ignore[return-value]  # the length was checked

    def _check(self, text: bytes) -> bytes:
        return hashlib.blake2b(text, digest_size=_CHECK_BYTES, person=self.name).digest()


MARKETS: CursorCodec[MarketSortKey] = CursorCodec(b"agent markets", 3)
STAKES: CursorCodec[StakeSortKey] = CursorCodec(b"agent positions", 2)


def _bad() -> Exception:
    return invalid_part("query parameter", "cursor", "is not a cursor of this list; leave it out for the first page")
