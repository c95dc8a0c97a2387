"""What a trade is refused with, worded in one place."""

from __future__ import annotations

from typing import Any

from api.agent.problems import problem
from api.http.problem import Problem
from core.outbox import Intent

_CLOSED = frozenset({"Closed", "AlreadySettled", "NotOpenYet", "UnknownMarket"})
_PAUSED = frozenset({"StakesArePaused", "MissingRole"})
_SPENT = frozenset({"AuthorizationAlreadyUsed", "AuthorizationUsedOrCanceled", "AuthorizationAlreadyBooked"})


def unavailable(why: str, kit: dict[str, Any] | None = None) -> Problem:
    return problem("platform_paused", f"Settlement is unavailable: {why}.", retry_after=5, escapeKit=kit)


def conflict(idem_key: str) -> Problem:
    return problem("idem_conflict", f"The idemKey {idem_key!r} was used for a different trade.")


def spoken_for() -> Problem:
    return problem("payment_invalid", "This authorization was brought for another trade and pays for that one only.")


def twin(intent_hash_of_first: bytes) -> Problem:
    first = "0x" + intent_hash_of_first.hex()
    return problem(
        "rate_limited",
        "The same bet by this wallet is still settling under another idemKey.",
        hint=f"Wait for trade {first} to settle, or send this again after a minute to bet once more.",
        retry_after=5,
        tradeId=first,
    )


def settling(kit: dict[str, Any] | None) -> Problem:
    return problem(
        "rate_limited",
        "This idemKey is settling.",
        hint="Send the same request again shortly to fetch the receipt.",
        retry_after=1,
        escapeKit=kit,
    )


def unknown(tx_hash: str, kit: dict[str, Any] | None) -> Problem:
    return problem(
        "internal_error",
        "The transaction was submitted, and its outcome is not recorded yet.",
        hint="Send the same request with the same idemKey to fetch the receipt; do not pay again.",
        txHash=tx_hash,
        escapeKit=kit,
    )


def refused(intent: Intent) -> Problem:
    """What the contract's refusal means; no money moved."""
    why = intent.reason_code or ""
    extra: dict[str, Any] = {} if intent.tx_hash_hex is None else {"txHash": intent.tx_hash_hex}
    if why == "TooFewShares":
        return problem("slippage_exceeded", "The book moved past your limits before the bet could settle.", **extra)
    if why in _CLOSED:
        return problem("market_closed", "The market closed before the bet could settle.", **extra)
    if why in _PAUSED:
        return problem("platform_paused", "Stakes are paused.", retry_after=5, **extra)
    if why in _SPENT:
        return problem(
            "payment_invalid",
            "This authorization was already used or cancelled.",
            hint="If it paid us, send the same request again and it is credited; else sign a new one.",
            **extra,
        )
    if why == "ERC20InsufficientBalance":
        return problem("insufficient_balance", "The wallet's USDC no longer covers the bet.", **extra)
    sentence = (intent.reason or "The chain refused the payment.").rstrip(".")
    return problem("payment_invalid", f"{sentence}.", **extra)
