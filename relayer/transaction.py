"""A lane's transaction on its way, and what to do about it next. Pure: clocks, nonces and heights are passed in."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from core.outbox.states import IntentState, MinedOutcome
from relayer.fees import FeeMarket
from relayer.payers import PayerKind
from relayer.signing import Fees


@dataclass(frozen=True, slots=True)
class Attempt:
    """Signed bytes for a nonce. Those of one `LaneTransaction` replace each other: at most one is ever mined."""

    hash: bytes
    raw: bytes = field(repr=False)
    fees: Fees
    gas_limit: int
    is_cancel: bool = False


@dataclass(frozen=True, slots=True)
class Taker:
    """A mined transaction, by its hash and its block's."""

    tx_hash: bytes
    block_number: int
    block_hash: bytes


@dataclass(slots=True)
class LaneTransaction:
    """An intent with a nonce of its lane, from its first signature until its block is final. Rows keep the same.

    attempts: oldest first. state_since, last_sent_at: monotonic seconds. doomed: why the call must not or cannot be
    mined any more, as (code, sentence); then its nonce is taken by a no-op. used_since: when the nonce was first seen
    used without a receipt of ours. taker: the foreign transaction that has it, once found. asked_at: when it was last
    looked for. landed: it was our own that was found, and only its receipt is late. unfunded: the last answer to its
    newest bytes was that the key cannot pay for them. payer: the stranger whose signature it carries, if any;
    payer_code: the hash of that wallet's code, if it had any.
    """

    intent_id: int
    nonce: int
    kind: str
    to: bytes
    data: bytes = field(repr=False)
    value_wei: int
    attempts: list[Attempt]
    state: IntentState
    state_since: float
    max_fee_cap_wei: int | None = None
    not_after: int | None = None
    replay_safe: bool = False
    last_sent_at: float | None = None
    replaced_at: float | None = None
    doomed: tuple[str, str] | None = None
    used_since: float | None = None
    asked_at: float | None = None
    taker: Taker | None = None
    landed: bool = False
    unfunded: bool = False
    outcome: MinedOutcome | None = None
    block_number: int | None = None
    block_hash: bytes | None = None
    payer: bytes | None = None
    payer_code: bytes | None = None

    @property
    def newest(self) -> Attempt:
        return self.attempts[-1]

    @property
    def payer_kind(self) -> PayerKind:
        return PayerKind.of(is_signed=self.payer is not None, has_code=self.payer_code is not None)

    @property
    def cancelling(self) -> bool:
        return self.newest.is_cancel


class NextStep(StrEnum):
    """What to do next about a transaction."""

    KEEP = "keep"
    RESEND = "resend"  # offer the newest bytes again: the node does not have them
    BUMP = "bump"  # sign again with higher fees
    CANCEL = "cancel"  # sign a no-op with the same nonce


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait before doing something about a transaction.

    resend_after_seconds: before bytes are offered again. bump_after_seconds: before fees rise for a line that does
    not move although blocks come. bump_after_blocks: at least so many blocks must have passed it by.
    doubt_after_seconds: how long a receipt may be late before somebody else is looked for. believe_after_seconds: how
    long nodes must say the same of the key's nonces before anything is given up or paid for it.
    """

    resend_after_seconds: float
    bump_after_seconds: float
    bump_after_blocks: int = 2
    doubt_after_seconds: float = 2.0
    believe_after_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class LaneQueue:
    """How a lane's queue on the chain stands.

    latest: the chain's count of the key's mined transactions. pending: the same with what the node has in its pool.
    now: monotonic seconds. chain_time: the head's Unix seconds. stuck_seconds, stuck_blocks: since `latest` last moved
    while something was in flight.
    """

    latest: int
    pending: int
    now: float
    chain_time: int
    stuck_seconds: float
    stuck_blocks: int
    market: FeeMarket


def next_step(transaction: LaneTransaction, line: LaneQueue, patience: Patience, *, may_bump: bool = True) -> NextStep:
    """What to do about one transaction that the chain has not mined. may_bump: False for one whose fees could not be
    raised just now, so that it is still offered as it is.

    - Doomed, or past its time on the chain's clock: its nonce is taken by a no-op, so that it can never land late.
    - Its offer is below the base fee, so no block can hold it: bumped once two blocks have passed over the line.
    - First of a line that stands still while blocks come: bumped.
    - What the key cannot pay for is not bumped: it could pay even less for that.
    - Not in the node's pool, or first of a line that stands still: offered again.
    """
    late = transaction.not_after is not None and line.chain_time > transaction.not_after
    if (late or transaction.doomed is not None) and not transaction.cancelling:
        return NextStep.CANCEL
    waited = line.now - (transaction.last_sent_at if transaction.last_sent_at is not None else float("-inf"))
    first = transaction.nonce == line.latest
    underpriced = transaction.newest.fees.max_fee_wei < line.market.base_fee_wei
    since_bump = line.now - (transaction.replaced_at if transaction.replaced_at is not None else float("-inf"))
    if may_bump and not transaction.unfunded and line.stuck_blocks >= patience.bump_after_blocks:
        if underpriced and since_bump >= patience.resend_after_seconds:
            return NextStep.BUMP
        stands = line.stuck_seconds >= patience.bump_after_seconds and since_bump >= patience.bump_after_seconds
        if first and stands:
            return NextStep.BUMP
    if waited >= patience.resend_after_seconds and (transaction.nonce >= line.pending or first):
        return NextStep.RESEND
    return NextStep.KEEP


def nonce_was_taken(
    transaction: LaneTransaction, *, head: int, finality_blocks: int, now: float, patience: Patience
) -> bool:
    """True once the nonce may be given up: the foreign transaction that has it is known, and stands deep enough.

    Before finality a reorg could bring our bytes back to life, and the intent would land twice; unless the contract
    itself refuses that, in which case two blocks will do.
    """
    if (
        transaction.taker is None
        or transaction.used_since is None
        or now - transaction.used_since < patience.believe_after_seconds
    ):
        return False
    depth = head - transaction.taker.block_number
    return depth >= (min(2, finality_blocks) if transaction.replay_safe else finality_blocks)
