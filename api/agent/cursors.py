"""Cursors of the market list and of positions: opaque, and self-checking, so that a made-up one is refused."""

from __future__ import annotations

import base64
import binascii
import hashlib

from api.agent.facts import ListedMarket
from api.http.problem import invalid_part

# A market's place in the list: soonest deadline first, then by listing.
ListPlace = tuple[int, int, int]

_CHECK_BYTES = 6
_MARKETS, _STAKES = b"agent markets", b"agent positions"


def list_place(market: ListedMarket) -> ListPlace:
    return (market.closes_at, *market.listed_order)


# Where a stake stands among a wallet's: its block and its log's number there.
StakePlace = tuple[int, int]


def cursor_of(market: ListedMarket) -> str:
    return _cursor(_MARKETS, list_place(market))


def place_of(cursor: str) -> ListPlace:
    """400 for anything `cursor_of` did not make."""
    closes_at, block, log_index = _numbers(_MARKETS, cursor, 3)
    return closes_at, block, log_index


def stake_cursor(block: int, log_index: int) -> str:
    return _cursor(_STAKES, (block, log_index))


def stake_before(cursor: str) -> StakePlace:
    """400 for anything `stake_cursor` did not make."""
    block, log_index = _numbers(_STAKES, cursor, 2)
    return block, log_index


def _cursor(person: bytes, numbers: tuple[int, ...]) -> str:
    text = ".".join(map(str, numbers)).encode()
    return base64.urlsafe_b64encode(_check(person, text) + text).decode().rstrip("=")


def _numbers(person: bytes, cursor: str, count: int) -> tuple[int, ...]:
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        check, text = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
        parts = tuple(int(part) for part in text.split(b"."))
    except (binascii.Error, ValueError):
        raise _bad() from None
    if check != _check(person, text) or len(parts) != count:
        raise _bad()
    return parts


def _check(person: bytes, text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_CHECK_BYTES, person=person).digest()


def _bad() -> Exception:
    return invalid_part("query parameter", "cursor", "it is none that this API gave; leave it out for the first page")
