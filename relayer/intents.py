"""An intent as the relayer has it, step by step: wanted, prepared or refused, signed before, mined."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.outbox.states import IntentState, MinedOutcome
from relayer.signing import Fees, Signed, Unsigned
from relayer.transaction import Attempt, LaneTransaction


@dataclass(frozen=True, slots=True)
class Candidate:
    """A queued intent as the preflight needs it. had_nonce: it was signed before, and gave that nonce up. payer: the
    wallet whose signature it carries, if it is a stranger's."""

    intent_id: int
    kind: str
    to: bytes
    data: bytes = field(repr=False)
    value_wei: int
    gas_limit: int | None
    max_fee_cap_wei: int | None
    simulate: bool
    replay_safe: bool
    not_after: int | None
    age_seconds: float
    depends_on_state: IntentState | None
    depends_on_outcome: MinedOutcome | None
    had_nonce: bool = False
    payer: bytes | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A candidate with all that its signature needs but the nonce. payer_code: the hash of its payer's code, if any."""

    candidate: Candidate
    gas_limit: int
    fees: Fees
    payer_code: bytes | None = None


@dataclass(frozen=True, slots=True)
class IntentRefusal:
    """A queued intent that is not sent, and why. block_number: in which its call is refused so, if that is known."""

    intent_id: int
    code: str
    reason: str
    block_number: int | None = None


@dataclass(frozen=True, slots=True)
class Former:
    """A transaction signed for an intent that is in the queue again."""

    lane_id: int
    address: bytes
    nonce: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Mined:
    """What the chain did with a transaction."""

    transaction: LaneTransaction
    tx_hash: bytes
    outcome: MinedOutcome
    code: str | None
    reason: str | None
    block_number: int
    block_hash: bytes
    gas_used: int
    fee_wei: int


def attempt_of(signed: Signed, *, is_cancel: bool = False) -> Attempt:
    return Attempt(signed.hash, signed.raw, signed.fees, signed.gas_limit, is_cancel)


def unsigned_of(prepared: Prepared, chain_id: int, nonce: int) -> Unsigned:
    """The transaction to sign for it."""
    candidate = prepared.candidate
    return Unsigned(
        chain_id=chain_id,
        nonce=nonce,
        fees=prepared.fees,
        gas_limit=prepared.gas_limit,
        to=candidate.to,
        value_wei=candidate.value_wei,
        data=candidate.data,
    )


def transaction_of(prepared: Prepared, signed: Signed, now: float) -> LaneTransaction:
    """An intent just signed."""
    candidate = prepared.candidate
    return LaneTransaction(
        intent_id=candidate.intent_id,
        nonce=signed.nonce,
        kind=candidate.kind,
        to=candidate.to,
        data=candidate.data,
        value_wei=candidate.value_wei,
        attempts=[attempt_of(signed)],
        state=IntentState.SIGNED,
        state_since=now,
        max_fee_cap_wei=candidate.max_fee_cap_wei,
        not_after=candidate.not_after,
        replay_safe=candidate.replay_safe,
        payer=candidate.payer,
        payer_code=prepared.payer_code,
    )
