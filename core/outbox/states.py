"""The life of an intent, from queued to final, as one explicit table of transitions."""

from __future__ import annotations

from enum import StrEnum


class IntentState(StrEnum):
    """The state of an intent.

    queued   -> signed    a lane gave it a nonce and stored its signed bytes
             -> failed    refused before any nonce: it would revert, it is late, or its dependency failed. It is not
                          queued again: a new try has a new key (the database would allow it)
    signed   -> sent      the bytes were offered to a node (which may have taken them even without an answer)
             -> mined     found in a block before it was recorded as sent (the process died in between)
             -> queued    a foreign transaction used its nonce, in a block that is deep enough
    sent     -> mined     a receipt
             -> queued    as above
    mined    -> sent      a reorg undid its block
             -> final     it succeeded, and its block is final
             -> failed    it reverted, and its block is final
             -> replaced  our no-op took its nonce, and its block is final: the call can never be mined
    final, failed, replaced -> sent   only by a reorg deeper than the configured finality, which also raises an alarm
    """

    QUEUED = "queued"
    SIGNED = "signed"
    SENT = "sent"
    MINED = "mined"
    FINAL = "final"
    FAILED = "failed"
    REPLACED = "replaced"

    @property
    def ended(self) -> bool:
        """Return whether it has ended (only a reorg deeper than finality can undo that)."""
        return self in ENDED

    @property
    def in_flight(self) -> bool:
        """Return whether it has a nonce and is not known to be mined."""
        return self in (IntentState.SIGNED, IntentState.SENT)


OVERTAKEN = "overtaken"
"""A reason: it reverted when mined, but the call succeeds on the block before and after, so other transactions of its
block came between. Or no node gave the reason. It may be sent again."""
EXPIRED = "expired"
"""Reason: its deadline passed before it was mined."""
WALLET_REVERTS = "wallet_reverts"
"""Reason: too many transactions of its payer reverted within an hour."""
CODE_REVERTS = "code_reverts"
"""Reason: too many transactions of wallets with its payer's code reverted within an hour."""
CONTRACTS_SPENT = "contracts_spent"
"""A reason: reverts of contract wallets have used up what they may burn within an hour."""
PAYER_REASONS = frozenset({WALLET_REVERTS, CODE_REVERTS, CONTRACTS_SPENT})
"""Reasons why a payer's transaction is not sent now, but may be within the hour."""


class MinedOutcome(StrEnum):
    """The outcome of a mined intent."""

    SUCCEEDED = "succeeded"
    REVERTED = "reverted"
    CANCELLED = "cancelled"  # our no-op was mined in its place


ENDED = frozenset({IntentState.FINAL, IntentState.FAILED, IntentState.REPLACED})

TRANSITIONS: frozenset[tuple[IntentState, IntentState]] = frozenset(
    {
        (IntentState.QUEUED, IntentState.SIGNED),
        (IntentState.QUEUED, IntentState.FAILED),
        (IntentState.SIGNED, IntentState.SENT),
        (IntentState.SIGNED, IntentState.MINED),
        (IntentState.SIGNED, IntentState.QUEUED),
        (IntentState.SENT, IntentState.MINED),
        (IntentState.SENT, IntentState.QUEUED),
        (IntentState.MINED, IntentState.SENT),
        (IntentState.MINED, IntentState.FINAL),
        (IntentState.MINED, IntentState.FAILED),
        (IntentState.MINED, IntentState.REPLACED),
        (IntentState.FINAL, IntentState.SENT),
        (IntentState.FAILED, IntentState.SENT),
        (IntentState.FAILED, IntentState.QUEUED),
        (IntentState.REPLACED, IntentState.SENT),
    }
)


def settled_state(outcome: MinedOutcome) -> IntentState:
    """Return the state of a mined intent once its block is final."""
    return {
        MinedOutcome.SUCCEEDED: IntentState.FINAL,
        MinedOutcome.REVERTED: IntentState.FAILED,
        MinedOutcome.CANCELLED: IntentState.REPLACED,
    }[outcome]
