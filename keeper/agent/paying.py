"""What stakes are owed, and how the contract's own counters show what the index has lost. Pure; token units."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from core.agent.book import Book
from core.contracts.statuses import AgentMarketStatus, StakeStatus

MIN_LOST = 500_000
"""What the contract owes beyond what the index knows, from which on its counters are compared: less than the least that
a stake can be owed, more than what is left of divisions."""


@dataclass(frozen=True, slots=True)
class UnpaidStake:
    """A stake the contract has not paid, with what decides what it is owed. `due_at`: since when that may be sent."""

    stake_id: int
    wallet: bytes
    status: int
    outcome: int | None
    amount: int
    shares: int
    failed: int  # payouts the token refused so far
    due_at: int


@dataclass(frozen=True, slots=True)
class DueStake:
    """A stake that `pay` would send something for."""

    stake_id: int
    owner: bytes
    amount: int
    failed: int
    due_at: int

    @property
    def subject(self) -> str:
        return f"agent:pay:{self.stake_id}"


@dataclass(frozen=True, slots=True)
class Counters:
    """A market in numbers, of the contract or of the index. `stakes`: ids given out."""

    stakes: int
    status: int
    paid_out: int
    paid_shares: int


def dues(stakes: Sequence[UnpaidStake], book: Book, status: int, winner: int | None) -> list[DueStake]:
    """Of one market. A late payment is owed back whatever becomes of the market."""
    is_settled = status in (AgentMarketStatus.RESOLVED, AgentMarketStatus.VOID)
    owing = []
    for stake in stakes:
        owed = 0
        if stake.status == StakeStatus.OWED_BACK:
            owed = stake.amount
        elif stake.status == StakeStatus.IN_BOOK and is_settled and stake.outcome is not None:
            owed = book.owed(
                winner if status == AgentMarketStatus.RESOLVED else None, stake.outcome, stake.amount, stake.shares
            )
        if owed:
            owing.append(DueStake(stake.stake_id, stake.wallet, owed, stake.failed, stake.due_at))
    return sorted(owing, key=lambda due: due.stake_id)


def has_lost(unpaid: int, indexed: int) -> bool:
    """Whether the contract owes more than the index knows of, both at one block."""
    return unpaid - indexed >= MIN_LOST


def lost_ids(index: int, chain: Counters, indexed: Counters | None, looked_at: Collection[int]) -> list[int]:
    """Ids of a market's stakes that must be asked of the contract: those that nobody looked at, and all of a market
    whose numbers differ. `index`: its position in opening order; `looked_at`: those whose rows were."""
    ids = [index << 32 | n for n in range(chain.stakes)]
    if indexed is None or (chain.status, chain.paid_out, chain.paid_shares) != (
        indexed.status,
        indexed.paid_out,
        indexed.paid_shares,
    ):
        return ids
    return [each for each in ids if each not in looked_at]
