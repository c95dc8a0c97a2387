"""Every number by which a contract names a state, a reason or a kind. Here it stands once; elsewhere is its name.

tests/unit/test_statuses.py holds them to the enums of the Solidity sources.
"""

from __future__ import annotations

from enum import IntEnum


class Family(IntEnum):
    """Kinds of stock markets, as MarketLister counts them."""

    DAILY = 0
    WEEKLY = 1
    DRILL = 2

    @property
    def word(self) -> str:
        return self.name.lower()


class StockMarketStatus(IntEnum):
    """Where a stock market stands, as IVestedMarkets.Status has it."""

    NONE = 0
    OPEN = 1
    UP = 2
    DOWN = 3
    VOID = 4


class StockOutcome(IntEnum):
    """How a stock market ended: the outcome in RoundResolver's `Settled`."""

    UP = 0
    DOWN = 1
    FLAT = 2
    VOID = 3


class StockReason(IntEnum):
    """Why a stock market ended so: the reason in RoundResolver's `Settled`."""

    ROUNDS = 0
    FLAT = 1
    STALE = 2
    PAUSED = 3
    BAD_ANSWER = 4
    MULTIPLIER = 5
    OUTAGE = 6


class PreviewStatus(IntEnum):
    """What the rounds say about a market, as RoundResolver.Status has it."""

    NOT_READY = 0
    UP = 1
    DOWN = 2
    FLAT = 3
    STALE = 4
    BAD_PROOF = 5
    PAUSED = 6
    BAD_ANSWER = 7


class RoundProblem(IntEnum):
    """Why a feed has no reading, as `RoundFinder` counts it."""

    OK = 0
    NO_FEED = 1
    LATEST_UNREADABLE = 2
    NO_PHASE = 3
    NO_ROUND = 4
    TOO_MANY_PHASES = 5


class MarketKind(IntEnum):
    """Kinds of agent markets, as IFeedResolver.Kind has them."""

    THRESHOLD = 0
    RANGE = 1
    DIRECTION = 2


class AgentMarketStatus(IntEnum):
    """Where an agent market stands, as ISettlementWallet.MarketStatus has it."""

    UNKNOWN = 0
    OPEN = 1
    RESOLVED = 2
    VOID = 3


class StakeStatus(IntEnum):
    """Where a stake stands, as ISettlementWallet.StakeStatus has it."""

    UNKNOWN = 0
    IN_BOOK = 1
    OWED_BACK = 2
    PAID = 3
    REFUNDED = 4


class Form(IntEnum):
    """The token's function that takes a payment, as ISettlementWallet.Form has it."""

    TRANSFER = 0
    RECEIVE = 1


class RefundReason(IntEnum):
    """Why a late payment became a refund, as ISettlementWallet.RefundReason has it."""

    NONE = 0
    PAUSED = 1
    NOT_OPEN = 2
    CLOSED = 3
    OUTCOME = 4
    AMOUNT = 5
    POT_FULL = 6
    KEY_USED = 7
    BOUND = 8
    SHARES = 9
    OTHER_AMOUNT = 10


class VoidReason(IntEnum):
    """Why an agent market gave its stakes back, as IFeedResolver.VoidReason has it."""

    NONE = 0
    STALE = 1
    BAD_ANSWER = 2
    NO_READING = 3
    TIMEOUT = 4
    TIE = 5
    MET_BEFORE_START = 6
    CONDEMNED = 7


class Quality(IntEnum):
    """What a reading is worth, as IPoolFeed.Quality has it."""

    UNRECORDED = 0
    GOOD = 1
    THIN = 2
    OUT_OF_RANGE = 3
