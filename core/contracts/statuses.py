"""The contracts' numeric states, reasons and kinds. A test compares them with the Solidity sources."""

from __future__ import annotations

from enum import IntEnum


class Family(IntEnum):
    """MarketLister's families of stock markets."""

    DAILY = 0
    WEEKLY = 1
    DRILL = 2

    @property
    def word(self) -> str:
        return self.name.lower()


class StockMarketStatus(IntEnum):
    """IVestedMarkets.Status."""

    NONE = 0
    OPEN = 1
    UP = 2
    DOWN = 3
    VOID = 4


class StockOutcome(IntEnum):
    """The outcome in RoundResolver's event `Settled`."""

    UP = 0
    DOWN = 1
    FLAT = 2
    VOID = 3


class StockReason(IntEnum):
    """The reason in RoundResolver's event `Settled`."""

    ROUNDS = 0
    FLAT = 1
    STALE = 2
    PAUSED = 3
    BAD_ANSWER = 4
    MULTIPLIER = 5
    OUTAGE = 6


class PreviewStatus(IntEnum):
    """RoundResolver.Status, the verdict on a market given its rounds."""

    NOT_READY = 0
    UP = 1
    DOWN = 2
    FLAT = 3
    STALE = 4
    BAD_PROOF = 5
    PAUSED = 6
    BAD_ANSWER = 7


class RoundProblem(IntEnum):
    """RoundFinder's reason why a feed has no reading."""

    OK = 0
    NO_FEED = 1
    LATEST_UNREADABLE = 2
    NO_PHASE = 3
    NO_ROUND = 4
    TOO_MANY_PHASES = 5


class MarketKind(IntEnum):
    """IFeedResolver.Kind."""

    THRESHOLD = 0
    RANGE = 1
    DIRECTION = 2


class AgentMarketStatus(IntEnum):
    """ISettlementWallet.MarketStatus."""

    UNKNOWN = 0
    OPEN = 1
    RESOLVED = 2
    VOID = 3


class StakeStatus(IntEnum):
    """ISettlementWallet.StakeStatus."""

    UNKNOWN = 0
    IN_BOOK = 1
    OWED_BACK = 2
    PAID = 3
    REFUNDED = 4


class Form(IntEnum):
    """ISettlementWallet.Form, the token function that transfers a payment."""

    TRANSFER = 0
    RECEIVE = 1


class RefundReason(IntEnum):
    """ISettlementWallet.RefundReason, why a payment became a refund."""

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
    """IFeedResolver.VoidReason, why an agent market is void."""

    NONE = 0
    STALE = 1
    BAD_ANSWER = 2
    NO_READING = 3
    TIMEOUT = 4
    TIE = 5
    MET_BEFORE_START = 6
    CONDEMNED = 7


class Quality(IntEnum):
    """IPoolFeed.Quality, the quality of a reading."""

    UNRECORDED = 0
    GOOD = 1
    THIN = 2
    OUT_OF_RANGE = 3
