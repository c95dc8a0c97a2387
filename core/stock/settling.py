"""Chooses the call that ends a stock market, based on the resolver's verdict on its rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.contracts.statuses import PreviewStatus

REFUND_DRILL_AGE_SECONDS: Final = 1
"""Maximum reading age of a refund drill: no feed updates that often, so its readings are provably stale."""


@dataclass(frozen=True, slots=True)
class EndingCall:
    """A call that settles or voids a market. `contract` is the contract's name in the deployment file."""

    contract: str
    function: str
    arguments: tuple[int, ...]


def ending_call(
    status: PreviewStatus, market_id: int, rounds: tuple[int, int], *, is_voidable: bool
) -> EndingCall | None:
    """Return the call that ends a market past its bell, or None if the market cannot be ended yet.

    rounds: the ids of the rounds in effect at the strike and at the bell. An id is 0 if there is no such round.
    is_voidable: whether anyone may void the market because it was not settled in time.
    """
    match status:
        case PreviewStatus.UP | PreviewStatus.DOWN | PreviewStatus.FLAT:
            return EndingCall("RoundResolver", "resolveWith", (market_id, *rounds))
        case PreviewStatus.BAD_ANSWER:
            return EndingCall("RoundResolver", "voidBadAnswer", (market_id, *rounds))
        case PreviewStatus.STALE:
            return EndingCall("RoundResolver", "voidStale", (market_id, *rounds))
        case PreviewStatus.PAUSED:
            return EndingCall("RoundResolver", "voidPaused", (market_id,))
        case PreviewStatus.BAD_PROOF | PreviewStatus.NOT_READY:
            return EndingCall("VestedMarkets", "voidMarket", (market_id,)) if is_voidable else None
