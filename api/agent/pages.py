"""Cursors of the market list: opaque, and self-checking, so that a made-up one is refused."""

from __future__ import annotations

import base64
import binascii
import hashlib

from api.agent.facts import Market
from api.agent.problems import problem

Order = tuple[int, int, int]
"""A market's place in the list: soonest deadline first, then by listing."""

_CHECK_BYTES = 6


def order_of(market: Market) -> Order:
    return (market.closes_at, *market.listed_order)


def cursor_of(market: Market) -> str:
    text = ".".join(map(str, order_of(market))).encode()
    return base64.urlsafe_b64encode(_check(text) + text).decode().rstrip("=")


def place_of(cursor: str) -> Order:
    """400 for anything `cursor_of` did not make."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        check, text = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
        parts = tuple(int(part) for part in text.split(b"."))
    except (binascii.Error, ValueError):
        raise _bad() from None
    if check != _check(text) or len(parts) != 3:
        raise _bad()
    return parts


def _check(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_CHECK_BYTES, person=b"agent markets").digest()


def _bad() -> Exception:
    return problem("invalid_request", "The cursor is not one this API gave; leave it out for the first page.")
