"""Another feed on the same chain, as a source."""

from __future__ import annotations

from decimal import Decimal

from core.chain import ChainClient, Contract, RpcError, RpcErrorKind
from keeper.sources.sample import LatestRound, Sample, SampleRefused, Why, units
from keeper.sources.settings import ChainlinkSource


async def latest_round(client: ChainClient, feed: Contract, block: int) -> LatestRound | None:
    """Return the feed's newest round at a block; None when it has none. A node that cannot say is another matter, and
    raises: a feed taken for empty would take any value for its first."""
    try:
        _, answer, _, updated_at, _ = await client.read(feed.call("latestRoundData"), block)
    except RpcError as error:
        if error.kind is not RpcErrorKind.REVERTED:
            raise
        return None
    return LatestRound(answer, updated_at) if updated_at else None


async def sample(client: ChainClient, feed: Contract, source: ChainlinkSource, now: int, block: int) -> Sample:
    """Return the feed's newest answer, whatever its decimals, as one with 8."""
    latest = await latest_round(client, feed, block)
    if latest is None:
        raise SampleRefused(Why.DOWN, f"{source.name} has no round")
    if now - latest.updated_at > source.max_age_seconds:
        raise SampleRefused(Why.LATE, f"{source.name} was last updated {now - latest.updated_at} s ago")
    decimals = int(await client.read(feed.call("decimals"), block))
    scale = Decimal(10) ** -decimals
    value = units(Decimal(latest.answer) * scale, source.multiply)
    return Sample(value, min(latest.updated_at, now), source.name)
