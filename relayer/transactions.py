"""Intents from the lane's point of view (queued, signed, in flight, mined), and the next step for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from core.outbox import IntentState, MinedOutcome
from relayer import metrics
from relayer.policy import FeeMarket, Patience, PayerKind, expected_price
from relayer.signing import Fees, Signed, Unsigned


@dataclass(frozen=True, slots=True)
class NonceTaker:
    """The mined transaction that used a nonce."""

    tx_hash: bytes
    block_number: int
    block_hash: bytes


@dataclass(frozen=True, slots=True)
class Call:
    """The call that an intent requests. If the call carries a user's signature, `payer` is that user's wallet."""

    intent_id: int
    kind: str
    to: bytes
    data: bytes = field(repr=False)
    value_wei: int
    not_after: int | None = None
    replay_safe: bool = False
    payer: bytes | None = None

    def unsigned(self, chain_id: int, nonce: int, fees: Fees, gas_limit: int) -> Unsigned:
        return Unsigned(chain_id, nonce, fees, gas_limit, self.to, self.value_wei, self.data)


@dataclass(slots=True)
class LaneTransaction:
    """An intent with a nonce, from its first signature until its block is final. Times are in monotonic seconds.

    attempts: everything signed for the nonce, oldest first. At most one attempt is ever mined.
    payer_code: the hash of the payer's code, if any.
    doomed: why the call must not or cannot be mined any more, as (code, sentence). A no-op then takes the nonce.
    unfunded: whether the last response from a node was that the key cannot pay for the newest bytes.
    used_since: when the nonce was first seen to be used, while none of our transactions had a receipt.
    searched_at: when the transaction that used the nonce was last searched for.
    rival: the foreign transaction that used the nonce, if the search found one.
    landed: whether the search found one of our own transactions. Its receipt is then merely late.
    """

    call: Call
    nonce: int
    attempts: list[Signed]
    state: IntentState
    state_since: float
    payer_code: bytes | None = None
    last_sent_at: float | None = None
    replaced_at: float | None = None
    doomed: tuple[str, str] | None = None
    unfunded: bool = False
    used_since: float | None = None
    searched_at: float | None = None
    rival: NonceTaker | None = None
    landed: bool = False
    outcome: MinedOutcome | None = None
    block_number: int | None = None
    block_hash: bytes | None = None

    @property
    def intent_id(self) -> int:
        return self.call.intent_id

    @property
    def newest(self) -> Signed:
        return self.attempts[-1]

    @property
    def payer_kind(self) -> PayerKind:
        return PayerKind.of(is_signed=self.call.payer is not None, has_code=self.payer_code is not None)

    @property
    def cancelling(self) -> bool:
        return self.newest.is_cancel


class NextStep(StrEnum):
    KEEP = "keep"
    RESEND = "resend"  # offer the newest bytes again: the node does not have them
    BUMP = "bump"  # sign again with higher fees
    CANCEL = "cancel"  # sign a no-op with the same nonce


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """The progress of a lane's transactions on the chain.

    latest: the number of the key's transactions that are mined.
    pending: the number that are mined or in the node's pool.
    now: the time in monotonic seconds.
    chain_time: the head's time in Unix seconds.
    stuck_seconds, stuck_blocks: the time and blocks since `latest` last moved while something was in flight.
    """

    latest: int
    pending: int
    now: float
    chain_time: int
    stuck_seconds: float
    stuck_blocks: int
    market: FeeMarket


def next_step(
    transaction: LaneTransaction, progress: QueueProgress, patience: Patience, *, may_bump: bool = True
) -> NextStep:
    """Return what to do about a transaction that is not mined. `may_bump` is False if an attempt to raise its fees has
    just failed.

    - Cancel it if it is doomed, or late by the chain's clock. A no-op takes its nonce, so the transaction can never
      be mined late.
    - Bump it if its fee is below the base fee and two blocks have passed. No block can include such a transaction.
    - Bump it if it has the lowest unmined nonce and is still not mined although new blocks arrive.
    - Never bump it while the key cannot even pay for the current bytes.
    - Resend it if it is not in the node's pool, or has the lowest unmined nonce.
    """
    late = transaction.call.not_after is not None and progress.chain_time > transaction.call.not_after
    if (late or transaction.doomed is not None) and not transaction.cancelling:
        return NextStep.CANCEL
    waited = progress.now - (transaction.last_sent_at if transaction.last_sent_at is not None else float("-inf"))
    first = transaction.nonce == progress.latest
    underpriced = transaction.newest.fees.max_fee_wei < progress.market.base_fee_wei
    since_bump = progress.now - (transaction.replaced_at if transaction.replaced_at is not None else float("-inf"))
    if may_bump and not transaction.unfunded and progress.stuck_blocks >= patience.bump_after_blocks:
        if underpriced and since_bump >= patience.resend_after_seconds:
            return NextStep.BUMP
        stands = progress.stuck_seconds >= patience.bump_after_seconds and since_bump >= patience.bump_after_seconds
        if first and stands:
            return NextStep.BUMP
    if waited >= patience.resend_after_seconds and (transaction.nonce >= progress.pending or first):
        return NextStep.RESEND
    return NextStep.KEEP


def is_nonce_taken(
    transaction: LaneTransaction, *, head: int, finality_blocks: int, now: float, patience: Patience
) -> bool:
    """Return whether the nonce can be given up: the foreign transaction that used it is known and deep enough.

    Before finality, a reorg could still let our own transaction be mined, and the call would then be executed twice. If
    the contract itself rejects a second execution (`replay_safe`), two blocks are enough.
    """
    if (
        transaction.rival is None
        or transaction.used_since is None
        or now - transaction.used_since < patience.believe_after_seconds
    ):
        return False
    depth = head - transaction.rival.block_number
    return depth >= (min(2, finality_blocks) if transaction.call.replay_safe else finality_blocks)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A queued intent. `had_nonce` is True if the intent had a nonce before and the nonce was given up."""

    call: Call
    age_seconds: float
    depends_on_state: IntentState | None
    depends_on_outcome: MinedOutcome | None
    had_nonce: bool = False

    @property
    def intent_id(self) -> int:
        return self.call.intent_id


@dataclass(frozen=True, slots=True)
class Prepared:
    """A candidate that can be signed once it has a nonce."""

    candidate: Candidate
    gas_limit: int
    fees: Fees
    payer_code: bytes | None = None

    @property
    def call(self) -> Call:
        return self.candidate.call

    def unsigned(self, chain_id: int, nonce: int) -> Unsigned:
        return self.call.unsigned(chain_id, nonce, self.fees, self.gas_limit)


@dataclass(frozen=True, slots=True)
class IntentRefusal:
    """The refusal of a queued intent. `block_number` is the block at which its call reverts for the stated reason, if
    known."""

    candidate: Candidate
    code: str
    reason: str
    block_number: int | None = None


@dataclass(frozen=True, slots=True)
class FormerTransaction:
    """A transaction that was signed for an intent before it was queued again."""

    lane_id: int
    address: bytes
    nonce: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Mined:
    transaction: LaneTransaction
    tx_hash: bytes
    outcome: MinedOutcome
    code: str | None
    reason: str | None
    block_number: int
    block_hash: bytes
    gas_used: int
    fee_wei: int


# A block by height and hash.
BlockKey = tuple[int, bytes]


class LaneTransactions:
    """A lane's transactions in flight, and what the lane has spent. Hold the lock `writing` during each database write
    of the lane and during the matching change to this object.

    unmined: transactions by nonce.
    mined: transactions by block, until the block is final.
    verified: blocks found canonical since the last reorg.
    spent_wei: the cost of gas in the past hour.
    burnt_wei: the part of `spent_wei` that was spent on reverts, by kind of payer.
    where: the labels of the lane's metrics and log lines.

    `spent_wei` and `burnt_wei` are read from the rows at intervals. In between, the cost of each receipt is added.
    """

    def __init__(self, chain: str, lane: str, next_nonce: int) -> None:
        self.where = {"chain": chain, "lane": lane}
        self.next_nonce = next_nonce
        self.unmined: dict[int, LaneTransaction] = {}
        self.mined: dict[BlockKey, list[LaneTransaction]] = {}
        self.verified: set[BlockKey] = set()
        self.spent_wei = 0
        self.burnt_wei = dict.fromkeys(PayerKind, 0)
        self.writing = asyncio.Lock()
        self.landed = asyncio.Event()

    def load(self, transactions: Iterable[LaneTransaction]) -> None:
        for transaction in transactions:
            if transaction.state is IntentState.MINED:
                self._add_mined(transaction)
            else:
                self.unmined[transaction.nonce] = transaction
        self._update_gauges()

    def add_signed(self, transactions: Sequence[LaneTransaction], queued_seconds: Mapping[int, float]) -> None:
        for transaction in transactions:
            self.unmined[transaction.nonce] = transaction
            self.next_nonce = max(self.next_nonce, transaction.nonce + 1)
            waited = queued_seconds[transaction.intent_id]
            self._measure(transaction.call.kind, IntentState.QUEUED, IntentState.SIGNED, waited)
        self._update_gauges()

    def count_refused(self, candidate: Candidate) -> None:
        self._measure(candidate.call.kind, IntentState.QUEUED, IntentState.FAILED, candidate.age_seconds)

    def mark_sent(self, transaction: LaneTransaction) -> None:
        self._move(transaction, IntentState.SENT)

    def mark_mined(self, transaction: LaneTransaction, fee_wei: int) -> None:
        self.spent_wei += fee_wei
        if transaction.outcome is MinedOutcome.REVERTED:
            self.burnt_wei[transaction.payer_kind] += fee_wei
        self._move(transaction, IntentState.MINED)
        self.unmined.pop(transaction.nonce, None)
        self._add_mined(transaction)
        self.landed.set()
        self._update_gauges()

    def undo_block(self, key: BlockKey) -> list[LaneTransaction]:
        """Mark the transactions of a block that a reorg undid as in flight again. Return them; the caller must send
        them at once."""
        transactions = self.mined.pop(key, [])
        self.verified.discard(key)
        for transaction in transactions:
            self.reopen(transaction)
        return transactions

    def reopen(self, transaction: LaneTransaction) -> None:
        self._move(transaction, IntentState.SENT)
        transaction.outcome = transaction.block_number = transaction.block_hash = None
        transaction.last_sent_at = transaction.used_since = transaction.searched_at = transaction.rival = None
        self.unmined[transaction.nonce] = transaction
        self._update_gauges()

    def requeue(self, transaction: LaneTransaction) -> None:
        self._move(transaction, IntentState.QUEUED)
        self.unmined.pop(transaction.nonce, None)
        self.landed.set()
        self._update_gauges()

    def end_block(self, key: BlockKey, ends: Iterable[tuple[LaneTransaction, IntentState]]) -> None:
        for transaction, state in ends:
            self._move(transaction, state)
        self.mined.pop(key, None)
        self.verified.discard(key)

    def worst_cost_wei(self) -> int:
        """Return the most that all unmined transactions can cost, including the value they send. The key's balance must
        cover it."""
        return sum(
            each.newest.gas_limit * each.newest.fees.max_fee_wei + (0 if each.cancelling else each.call.value_wei)
            for each in self.unmined.values()
        )

    def expected_gas_wei(self, market: FeeMarket, kinds: Collection[PayerKind] = tuple(PayerKind)) -> int:
        """Return the expected gas cost of the unmined transactions from these kinds of payer, assuming that each uses
        its full gas limit."""
        return sum(
            each.newest.gas_limit * expected_price(each.newest.fees, market)
            for each in self.unmined.values()
            if each.payer_kind in kinds
        )

    def _add_mined(self, transaction: LaneTransaction) -> None:
        assert transaction.block_number is not None
        assert transaction.block_hash is not None
        self.mined.setdefault((transaction.block_number, transaction.block_hash), []).append(transaction)

    def _move(self, transaction: LaneTransaction, state: IntentState) -> None:
        now = time.monotonic()
        self._measure(transaction.call.kind, transaction.state, state, now - transaction.state_since)
        transaction.state, transaction.state_since = state, now

    def _measure(self, kind: str, before: IntentState, after: IntentState, seconds: float) -> None:
        metrics.CHANGES.labels(**self.where, kind=kind, before=before.value, after=after.value).inc()
        metrics.STATE_SECONDS.labels(self.where["chain"], before.value, after.value).observe(max(0.0, seconds))

    def _update_gauges(self) -> None:
        metrics.IN_FLIGHT.labels(**self.where).set(len(self.unmined))
