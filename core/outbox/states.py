"""The life of an intent, from the wish to the final block, as one explicit table of transitions."""

from __future__ import annotations

from enum import StrEnum


class IntentState(StrEnum):
    """Where an intent stands. The comments name who moves it on.

    queued   -> signed    a lane gave it a nonce and stored its signed bytes
             -> failed    refused before any nonce: it would revert, it is late, or what it depends on failed. It is
                          not queued again: a new try has a new key (the database would allow it)
    signed   -> sent      a node was offered the bytes (it may have taken them even when it did not say so)
             -> mined     found in a block before the offer was written down (the process died in between)
             -> queued    its nonce was used by a foreign transaction, beyond undoing
    sent     -> mined     a receipt
             -> queued    as above
    mined    -> sent      a reorg dropped its block
             -> final     it succeeded, and its block is too deep to be undone
             -> failed    it reverted, likewise
             -> replaced  our own no-op took its nonce, likewise: the call itself can never happen any more
    final, failed, replaced -> sent   only by a reorg deeper than the configured finality, which is also an alarm
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
        """Return True when nothing moves it any more (a reorg deeper than finality excepted)."""
        return self in ENDED

    @property
    def in_flight(self) -> bool:
        """Return True while its nonce is assigned and the chain has not used it."""
        return self in (IntentState.SIGNED, IntentState.SENT)


OVERTAKEN = "overtaken"
"""A reason: mined and reverted, though the call succeeds on the block before it and on its own: others of that block
came between. Or no node says why it reverted: it may be sent again, too."""
EXPIRED = "expired"
"""A reason: its deadline passed before it was mined."""
WALLET_REVERTS = "wallet_reverts"
"""A reason: too many transactions of its payer reverted within an hour."""
CODE_REVERTS = "code_reverts"
"""A reason: too many transactions of wallets with its payer's code reverted within an hour."""
CONTRACTS_SPENT = "contracts_spent"
"""A reason: reverts of wallets with code have used up what they may burn within an hour."""
PAYER_REASONS = frozenset({WALLET_REVERTS, CODE_REVERTS, CONTRACTS_SPENT})
"""The reasons for which a payer's transaction is not sent now, and may be within the hour."""


class MinedOutcome(StrEnum):
    """What the chain did with the nonce of a mined intent."""

    SUCCEEDED = "succeeded"
    REVERTED = "reverted"
    CANCELLED = "cancelled"  # our own no-op was mined in its place


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
