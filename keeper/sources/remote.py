"""Reads of remote sources: another feed on the chain, or a number in a JSON document on the web."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import aiohttp

from core.chain import ChainClient, Contract, RpcError, RpcErrorKind
from core.log import redact_text
from keeper.sources.sample import LatestRound, RefusalReason, Sample, SampleRefused, units
from keeper.sources.settings import ChainlinkSource, HttpSource


def round_of(answer: Any) -> LatestRound | None:
    """Return the round that `latestRoundData` returned, or None if the call reverted or the feed has no round."""
    if isinstance(answer, RpcError):
        return None
    _, value, _, updated_at, _ = answer
    return LatestRound(value, updated_at) if updated_at else None


async def feed_sample(client: ChainClient, feed: Contract, source: ChainlinkSource, now: int, block: int) -> Sample:
    """Return the value of the feed's newest round, scaled to 8 decimals."""
    try:
        latest = round_of(await client.read(feed.call("latestRoundData"), block))
    except RpcError as error:
        if error.kind is not RpcErrorKind.REVERTED:
            raise
        latest = None
    if latest is None:
        raise SampleRefused(RefusalReason.DOWN, f"{source.name} has no round")
    if now - latest.updated_at > source.max_age_seconds:
        raise SampleRefused(RefusalReason.LATE, f"{source.name} was last updated {now - latest.updated_at} s ago")
    decimals = int(await client.read(feed.call("decimals"), block))
    scale = Decimal(10) ** -decimals
    value = units(Decimal(latest.answer) * scale, source.multiply)
    return Sample(value, min(latest.updated_at, now), source.name)


MAX_BODY_BYTES = 2_000_000
MAX_AHEAD_SECONDS = 15
"""How far a source's time may be ahead of the chain's. Blocks come a little late, and clocks run fast."""
MILLISECONDS_FROM = 10**11
"""A time above this is in milliseconds: in seconds it would be in the year 5138."""


async def http_sample(http: aiohttp.ClientSession, source: HttpSource, now: int) -> Sample:
    """Return the number in the document as a sample. Its time is the document's if there is one, otherwise `now`."""
    document = await _document(http, source)
    number = _number(document, source.value, source.name)
    observed_at = now
    if source.observed_at is not None:
        stamp = units(_number(document, source.observed_at, source.name)) // 10**8
        observed_at = stamp // 1000 if stamp > MILLISECONDS_FROM else stamp
        if now - observed_at > source.max_age_seconds:
            raise SampleRefused(RefusalReason.LATE, f"{source.name} is {now - observed_at} s old")
        if observed_at - now > MAX_AHEAD_SECONDS:
            raise SampleRefused(RefusalReason.LATE, f"the chain is {observed_at - now} s behind {source.name}")
        observed_at = min(observed_at, now)
    return Sample(units(number, source.multiply), observed_at, source.name)


async def _document(http: aiohttp.ClientSession, source: HttpSource) -> Any:
    timeout = aiohttp.ClientTimeout(total=source.timeout_seconds)
    try:
        async with http.get(source.url, timeout=timeout, headers={"Accept": "application/json"}) as response:
            if response.status != 200:
                raise SampleRefused(RefusalReason.DOWN, f"{source.name} returned HTTP {response.status}")
            body = await response.content.read(MAX_BODY_BYTES + 1)
            while len(body) <= MAX_BODY_BYTES and (more := await response.content.read(MAX_BODY_BYTES)):
                body += more
    except TimeoutError:
        late = f"{source.name} did not respond within {source.timeout_seconds:g} s"
        raise SampleRefused(RefusalReason.LATE, late) from None
    except aiohttp.ClientError as error:
        raise SampleRefused(RefusalReason.DOWN, f"{source.name} cannot be reached: {redact_text(str(error))}") from None
    if len(body) > MAX_BODY_BYTES:
        raise SampleRefused(RefusalReason.ABSURD, f"{source.name} returned more than {MAX_BODY_BYTES} bytes")
    try:
        return json.loads(body, parse_float=Decimal, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise SampleRefused(RefusalReason.ABSURD, f"{source.name} did not return JSON") from None


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _number(document: Any, path: str, name: str) -> int | Decimal | str:
    number = _at(document, path, name)
    if isinstance(number, bool) or not isinstance(number, int | Decimal | str):
        raise SampleRefused(RefusalReason.ABSURD, f"{path} of {name} is of type {type(number).__name__}, not a number")
    return number


def _at(document: Any, path: str, name: str) -> Any:
    """Return the value at a path such as `pairs.0.marketCap`."""
    value = document
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, TypeError, ValueError):
            raise SampleRefused(RefusalReason.ABSURD, f"{name}'s response has no {path}") from None
    return value
