"""The sources of each feed, from the TOML file that VPM_KEEPER_SOURCES_FILE names.

On a local deployment a feed without an entry is simulated; elsewhere nothing is posted to it.
"""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from core.config.values import HttpUrlText
from core.errors import ConfigError
from keeper.sources.sample import ONE, Bounds

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
    """An AggregatorV3 feed on the same chain."""

    kind: Literal["chainlink"]
    name: Annotated[str, Field(min_length=1, max_length=40)]
    feed: Annotated[str, Field(pattern=r"^0x[0-9a-fA-F]{40}$")]
    max_age_seconds: Annotated[int, Field(ge=1)]
    multiply: Annotated[Decimal, Field(gt=0)] = Decimal(1)


class SimulatedSource(_Part):
    """A random walk, for local chains."""

    kind: Literal["simulated"]


AnySource = Annotated[HttpSource | ChainlinkSource | SimulatedSource, Field(discriminator="kind")]


class FeedSources(_Part):
    """A feed's sources and the bounds of its values."""

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
    """Return the sources by feed key."""
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
