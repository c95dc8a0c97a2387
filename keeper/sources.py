"""The sources of observations, and the checks before one is posted.

A source returns a sample or raises `SampleRefused`; `agree` combines the samples of all sources of a feed. When in
doubt, refuse: without a round a market is void and every stake is refunded, but a wrong round decides the market
wrongly. Values have the feed's 8 decimals; times are Unix seconds of the chain's clock.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from core.chain import ChainClient, Contract, RpcError, RpcErrorKind
from core.config.values import HttpUrlText
from core.errors import ConfigError
from core.log import redact_text

ONE = 10**8
INT192_MAX = 2**191 - 1


class RefusalReason(StrEnum):
    UNCONFIGURED = "unconfigured"
    DOWN = "down"
    ABSURD = "absurd"
    LATE = "late"
    DISAGREE = "disagree"


class SampleRefused(Exception):
    """Raised for a sample that cannot be used. `why` is for metrics, and the message is a sentence."""

    def __init__(self, why: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.why = why
        self.message = message


@dataclass(frozen=True, slots=True)
class Sample:
    value: int
    observed_at: int
    source: str


@dataclass(frozen=True, slots=True)
class LatestRound:
    answer: int
    updated_at: int


def units(number: Decimal | int | str, multiply: Decimal = Decimal(1)) -> int:
    """Return a number times `multiply`, with 8 decimals, rounded down. Raise SampleRefused unless it is above 0."""
    try:
        value = (Decimal(number) * multiply * ONE).to_integral_value(rounding=ROUND_DOWN)
        fits = 0 < value <= INT192_MAX
    except ArithmeticError:
        raise SampleRefused(RefusalReason.ABSURD, f"{str(number)[:40]!r} is not a number") from None
    if not fits:
        raise SampleRefused(RefusalReason.ABSURD, f"{str(number)[:40]} is not a positive amount that a feed can hold")
    return int(value)  # only after the check: int() of a huge number would write out every digit


def dollars(value: int) -> str:
    """Format a value with 8 decimals as an amount with thousands separators and two decimals, rounded down to cents."""
    return f"{value // ONE:,}.{value % ONE * 100 // ONE:02d}"


BPS = 10_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a feed's values, with 8 decimals. `max_move_bps` is the largest change since the last round, unless
    two sources agree. `agree_within_bps` is how far two sources may differ, relative to the lower value."""

    lowest: int = 1
    highest: int = 10**15 * 10**8
    max_move_bps: int = 3_000
    agree_within_bps: int = 200


def agree(samples: Sequence[Sample], refusals: Sequence[SampleRefused], bounds: Bounds) -> Sample:
    """Combine samples into one value. If two or more sources are configured, two must agree.

    Return the newer sample of the closest pair, or the lower one if both have the same time. The result keeps that
    sample's own time. The older time would backdate a current value, and the feed would be updated only as often as its
    slowest source.
    """
    configured = len(samples) + len(refusals)
    sane = [each for each in samples if bounds.lowest <= each.value <= bounds.highest]
    if not sane:
        if samples:
            value = dollars(samples[0].value)
            raise SampleRefused(RefusalReason.ABSURD, f"{samples[0].source} reports {value}, which is out of bounds")
        if refusals:
            raise SampleRefused(refusals[0].why, "; ".join(each.message for each in refusals))
        raise SampleRefused(RefusalReason.UNCONFIGURED, "no source is configured")
    if configured == 1:
        return sane[0]
    if len(sane) == 1:
        others = "; ".join(each.message for each in refusals) or "the others are out of bounds"
        reason = refusals[0].why if refusals else RefusalReason.ABSURD
        raise SampleRefused(reason, f"only {sane[0].source} has a usable value: {others}")
    ordered = sorted(sane, key=lambda each: (each.value, each.source))
    low, high = min(itertools.pairwise(ordered), key=lambda pair: pair[1].value - pair[0].value)
    if (high.value - low.value) * BPS > low.value * bounds.agree_within_bps:
        both = f"{low.source} reports {dollars(low.value)}, but {high.source} reports {dollars(high.value)}"
        raise SampleRefused(RefusalReason.DISAGREE, both)
    newer = low if low.observed_at >= high.observed_at else high
    return replace(newer, source=f"{low.source} + {high.source}")


def check_move(sample: Sample, last: LatestRound | None, bounds: Bounds, *, agreed: bool) -> Sample:
    """Return the sample. Raise SampleRefused if it moved implausibly far from the last round and no source agrees."""
    if last is None or last.answer <= 0 or agreed:
        return sample
    moved = abs(sample.value - last.answer)
    if moved * BPS > last.answer * bounds.max_move_bps:
        raise SampleRefused(
            RefusalReason.ABSURD,
            f"{sample.source} reports {dollars(sample.value)} after {dollars(last.answer)}; "
            "a second source would have to confirm such a move",
        )
    return sample


def is_new(sample: Sample, last: LatestRound | None) -> bool:
    """Return whether a sample was observed after the last round. A source may be updated less often than it is read."""
    return last is None or sample.observed_at > last.updated_at


def check_time(sample: Sample, now: int, max_lag: int) -> Sample:
    """Return the sample. Raise SampleRefused if it is from the future or too old for the feed."""
    if sample.observed_at > now:
        raise SampleRefused(RefusalReason.ABSURD, f"{sample.source} is {sample.observed_at - now} s ahead of the chain")
    if now - sample.observed_at > max_lag:
        age = now - sample.observed_at
        raise SampleRefused(RefusalReason.LATE, f"{sample.source} is {age} s old; the feed accepts up to {max_lag} s")
    return sample


# ---------------------------------------------------------------- the file


VARIABLE = "VPM_KEEPER_SOURCES_FILE"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HttpSource(_Part):
    """A JSON document, with the paths of the number and, optionally, of its time in Unix seconds or milliseconds."""

    kind: Literal["http"]
    name: Annotated[str, Field(min_length=1, max_length=40)]
    url: HttpUrlText
    value: Annotated[str, Field(min_length=1)]
    observed_at: str | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=30)] = 5.0
    max_age_seconds: Annotated[int, Field(ge=1)] = 300
    multiply: Annotated[Decimal, Field(gt=0)] = Decimal(1)


class ChainlinkSource(_Part):
    kind: Literal["chainlink"]
    name: Annotated[str, Field(min_length=1, max_length=40)]
    feed: Annotated[str, Field(pattern=r"^0x[0-9a-fA-F]{40}$")]
    max_age_seconds: Annotated[int, Field(ge=1)]
    multiply: Annotated[Decimal, Field(gt=0)] = Decimal(1)


class SimulatedSource(_Part):
    kind: Literal["simulated"]


AnySource = Annotated[HttpSource | ChainlinkSource | SimulatedSource, Field(discriminator="kind")]


class FeedSources(_Part):
    sources: Annotated[tuple[AnySource, ...], Field(min_length=1)]
    lowest_usd: Annotated[Decimal, Field(gt=0)] = Decimal(1)
    highest_usd: Annotated[Decimal, Field(gt=0)] = Decimal(10**15)
    max_move_percent: Annotated[Decimal, Field(gt=0, le=1000)] = Decimal(30)
    agree_within_percent: Annotated[Decimal, Field(gt=0, le=100)] = Decimal(2)

    @property
    def bounds(self) -> Bounds:
        return Bounds(
            lowest=int(self.lowest_usd * ONE),
            highest=int(self.highest_usd * ONE),
            max_move_bps=int(self.max_move_percent * 100),
            agree_within_bps=int(self.agree_within_percent * 100),
        )


SIMULATED = FeedSources(sources=(SimulatedSource(kind="simulated"),))

_FILE = TypeAdapter(dict[str, FeedSources])


def load_sources(path: Path | None) -> dict[str, FeedSources]:
    if path is None:
        return {}
    try:
        content = tomllib.loads(path.read_text(), parse_float=Decimal)
        return _FILE.validate_python(content)
    except OSError as error:
        raise ConfigError(f"Cannot read {path}, which {VARIABLE} names: {error.strerror}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        raise ConfigError(f"{path} is invalid: {problems}.") from None


# ---------------------------------------------------------------- remote sources


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
    """Return the number in the document as a sample. The sample's time is the document's if there is one, otherwise
    `now`."""
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
    value = document
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, TypeError, ValueError):
            raise SampleRefused(RefusalReason.ABSURD, f"{name}'s response has no {path}") from None
    return value


# ---------------------------------------------------------------- simulated values

# The first values of observation feeds and local pools. Price feeds start with the rounds from their setup.
FIRST_DOLLARS = {
    "BNKR/market_cap": 82_400_000,
    "AIXBT/market_cap": 41_700_000,
    "VIRTUAL/market_cap": 915_000_000,
    "BNKR/daily_volume": 3_150_000,
}
OTHERS_FIRST_DOLLARS = 100_000_000
SEED = "vpm"

VOLATILITY_PPM_PER_MINUTE = 4_000
"""A standard deviation of 0.4% a minute, 3% an hour: enough to see, but not enough to leave a market's range."""
YEARLY_VOLATILITY = VOLATILITY_PPM_PER_MINUTE / 10**6 * math.sqrt(365.25 * 24 * 60)
"""The volatility for priors, where 1 is 100%."""
HOME_MINUTES = 360
"""The walk returns halfway to its first value in about four hours."""
MAX_STEP_SECONDS = 900
"""After a longer gap the walk moves as if only this much time had passed."""

FIRST_ROUND = (1 << 64) | 1
"""The id of a feed's first round, where its walk starts."""


def first_value(key: str) -> int:
    return FIRST_DOLLARS.get(key, OTHERS_FIRST_DOLLARS) * ONE


def simulated_step(last: LatestRound, home: int, seed: str, key: str, now: int) -> int:
    """Return the simulated value at `now`, with the feed's 8 decimals. The value is at least 1, and every division
    rounds down."""
    seconds = min(max(now - last.updated_at, 1), MAX_STEP_SECONDS)
    # Standard deviation grows with the square root of time; isqrt of seconds * 1e6 keeps three decimals.
    scale = VOLATILITY_PPM_PER_MINUTE * math.isqrt(seconds * 1_000_000 // 60) // 1000
    noise = last.answer * scale * _gauss(seed, key, now) // (1_000_000 * 1000)
    pull = (home - last.answer) * seconds // (HOME_MINUTES * 60)
    return max(1, last.answer + noise + pull)


def simulated_sample(last: LatestRound | None, home: int, seed: str, key: str, now: int) -> Sample:
    value = first_value(key) if last is None else simulated_step(last, home, seed, key, now)
    return Sample(value, now, "simulated")


def _gauss(seed: str, key: str, now: int) -> int:
    """Return an approximately normal number in thousandths of a standard deviation: twelve uniform numbers, minus their
    mean."""
    digest = hashlib.sha256(f"{seed}\n{key}\n{now}".encode()).digest()
    words = [int.from_bytes(digest[at : at + 2]) for at in range(0, 24, 2)]
    return (sum(words) - 6 * 65_535) * 1000 // 65_536
