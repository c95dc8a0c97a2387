"""Which call ends a stock market, by what the resolver says of its rounds; and what makes a market one that is void."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.contracts.statuses import PreviewStatus

REFUND_DRILL_AGE_SECONDS: Final = 1
"""Age bound of a refund drill: no feed prints that often, so its readings are provably stale."""


@dataclass(frozen=True, slots=True)
class EndingCall:
    """A call that settles or voids a market. `contract` is its name in the deployment file."""

    contract: str
    function: str
    arguments: tuple[int, ...]


def ending_call(
    status: PreviewStatus, market_id: int, rounds: tuple[int, int], *, is_voidable: bool
) -> EndingCall | None:
    """Return the call that ends a market past its bell; None while there is none.

    `rounds`: those in effect at the strike and at the bell, 0 where there is none. `is_voidable`: anyone may void it,
    because it was not settled in time.
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
