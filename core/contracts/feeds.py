"""The feeds of a deployment file, one model per kind.

Chainlink's `price` feeds decide stock markets. The others decide agent markets: a `published` feed holds observations
of its publisher, a `pool` feed computes its readings from the observations of pools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self

from eth_utils.address import is_checksum_address
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel


def _checksummed(address: str) -> str:
    if not is_checksum_address(address):
        raise ValueError("not an address with a correct EIP-55 checksum")
    return address


def _units(value: object, info: ValidationInfo) -> int:
    """Parse a string of digits. Outside JSON, ints are accepted too."""
    written = value if info.mode == "json" or isinstance(value, str) else str(value)
    if not isinstance(written, str) or not re.fullmatch(r"[1-9][0-9]{0,38}", written) or int(written) >= 1 << 128:
        raise ValueError("not a positive whole number under 2**128, written as a string of digits")
    return int(written)


ADDRESS_PATTERN = r"^0x[0-9a-fA-F]{40}$"
AddressText = Annotated[str, Field(pattern=ADDRESS_PATTERN), AfterValidator(_checksummed)]
Ticker = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9.]{0,9}$")]
FeedKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+/[a-z_]+$")]
Seconds = Annotated[int, Field(ge=1)]
BigUnits = Annotated[
    int,
    BeforeValidator(_units),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^[1-9][0-9]{0,38}$"}),
]
"""An amount in smallest units, up to 128 bits; a string in JSON, where large numbers lose digits."""

MAX_STEPS_BACK = 1_440  # the lister's limit for the age of a pool feed's usable readings, in grid steps


class Part(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


class PriceFeed(Part):
    """A price feed's proxy, and the tokenized stock with its `oraclePaused()` and `uiMultiplier()`."""

    kind: Literal["price"]
    ticker: Ticker
    name: Annotated[str, Field(min_length=1)]
    proxy: AddressText
    stock_token: AddressText
    decimals: Annotated[int, Field(ge=0, le=18)] = 8
    deviation_bps: Annotated[int, Field(ge=1, le=10_000)]
    heartbeat_seconds: Seconds
    max_strike_age_seconds: Seconds
    max_final_age_seconds: Seconds
    side_cap_units: Annotated[int, Field(ge=1_000_000)]


MAX_OPEN: Final = 64  # unsettled markets per feed; the lister may iterate over all of them


class _AgentFeed(Part):
    """A feed that decides agent markets: its key (for example `BNKR/market_cap`) and the terms under which the Safe
    allows it. The terms are how far a reading looks back, the maximum age of a deciding reading, and the pot caps of
    each market and of all unsettled markets together."""

    key: FeedKey
    address: AddressText
    memory_seconds: Seconds
    max_age_seconds: Seconds
    pot_cap_units: Annotated[int, Field(ge=1)]
    feed_cap_units: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _check_feed_cap(self) -> Self:
        if not self.pot_cap_units <= self.feed_cap_units <= MAX_OPEN * self.pot_cap_units:
            raise ValueError(
                f"the feed cap of {self.key} is {self.feed_cap_units}; it must be 1 to {MAX_OPEN} times the pot cap, "
                f"{self.pot_cap_units}"
            )
        return self


class PublishedFeed(_AgentFeed):
    """An append-only feed whose publisher posts each observation within `maxLagSeconds`."""

    kind: Literal["published"]
    max_lag_seconds: Seconds

    @model_validator(mode="after")
    def _check_memory(self) -> Self:
        if self.memory_seconds < self.max_lag_seconds:
            raise ValueError(
                f"the memory of {self.key} ({self.memory_seconds} s) is shorter than its lag ({self.max_lag_seconds} s)"
            )
        return self


class PoolFactory(Part):
    """A trusted factory, whose pools record an observation in every block in which the price moves."""

    name: Annotated[str, Field(min_length=1, max_length=80)]
    address: AddressText


class PoolSource(Part):
    """A pool with a display name, such as `Uniswap v3 BNKR/WETH 1%`. A reading requires a third of the reference
    liquidity, a new market half of it."""

    address: AddressText
    name: Annotated[str, Field(min_length=1, max_length=80)]
    reference_liquidity: BigUnits


class PoolFeed(_AgentFeed):
    """A feed whose reading is a token's mean price over a window, computed from pools, times a fixed supply.

    There is a reading for each multiple of `stepSeconds`, and it is good unless a pool was too thin. A pool without
    trades for `maxQuietSeconds` stops new markets. `supply` is in the token's smallest units; the token `quote` counts
    as one USD. `potCapEvidence` refers to evidence that markets may hold more than `./vpm feed cost` computes.
    `supportedCapUnits` is what that command computed at the time, or null if it gave no cap.
    """

    kind: Literal["pool"]
    token: AddressText
    token_decimals: Annotated[int, Field(ge=0, le=36)]
    quote: AddressText
    supply: BigUnits
    pools: Annotated[tuple[PoolSource, ...], Field(min_length=1, max_length=2)]
    window_seconds: Seconds
    step_seconds: Seconds
    max_quiet_seconds: Seconds
    pot_cap_evidence: Annotated[str, Field(min_length=1, max_length=400)] | None = None
    supported_cap_units: Annotated[int, Field(ge=1)] | None = None

    @property
    def max_lag_seconds(self) -> int:
        return 0  # a reading is computed from the pools' past, so it is never late

    @model_validator(mode="after")
    def _check_lister_limits(self) -> Self:
        reach = self.window_seconds + self.step_seconds
        if self.memory_seconds < reach:
            raise ValueError(
                f"the memory of {self.key} ({self.memory_seconds} s) is shorter than its window plus one step "
                f"({reach} s)"
            )
        if not self.step_seconds <= self.max_age_seconds <= MAX_STEPS_BACK * self.step_seconds:
            raise ValueError(
                f"the maximum reading age of {self.key} ({self.max_age_seconds} s) is not between 1 and "
                f"{MAX_STEPS_BACK} steps of {self.step_seconds} s"
            )
        if len({pool.address for pool in self.pools}) != len(self.pools):
            raise ValueError(f"both pools of {self.key} are {self.pools[0].address}")
        return self


AgentFeed = PublishedFeed | PoolFeed
AnyFeed = Annotated[PriceFeed | PublishedFeed | PoolFeed, Field(discriminator="kind")]

KINDS: Mapping[str, type[Part]] = MappingProxyType({"price": PriceFeed, "published": PublishedFeed, "pool": PoolFeed})
