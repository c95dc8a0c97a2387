"""The body of /api/prices."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from api.http.body import Body
from api.stock.bodies.parts import Answer8, HexAddress, ReadAt, RoundId


class PriceReading(Body):
    ticker: str
    name: str
    feed: HexAddress
    answer: Answer8
    round_id: RoundId
    updated_at: Annotated[int, Meta(description="The round's update time, in Unix seconds.")]
    stale: Annotated[bool, Meta(description="This feed cannot be read, this is its last good reading.")]


class PricesBody(Body):
    """The latest oracle reading of every ticker."""

    status: Annotated[
        Literal["live", "stale-cache", "unavailable"],
        Meta(description="`stale-cache`: the chain or a feed cannot be read; `stale` ones are the last good."),
    ]
    read_at: ReadAt
    readings: list[PriceReading]
