"""The body of /api/prices."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from api.http.body import Body
from api.stock.bodies.parts import Address, Answer8, ReadAt, RoundId


class PriceReading(Body):
    ticker: str
    name: str
    feed: Address
    answer: Answer8
    round_id: RoundId
    updated_at: Annotated[int, Meta(description="The round's update time, in Unix seconds.")]


class PricesBody(Body):
    """The latest oracle reading of every ticker."""

    status: Annotated[
        Literal["live", "stale-cache", "unavailable"],
        Meta(description="`stale-cache`: the chain cannot be read, these are the last good readings."),
    ]
    read_at: ReadAt
    readings: list[PriceReading]
