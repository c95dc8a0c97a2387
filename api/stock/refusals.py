"""Refusals of the relay other than those of `checks`. Most include the call, so that a bettor can send it without
us."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from api.problems import Problem
from api.stock.bets import RelayedBet
from core.hexadecimal import hex_of
from core.money import decimal_text
from core.outbox import Intent

TOO_MANY = "The relay takes 10 requests a minute."
_FAILED = (
    "The send could not be confirmed; it may have landed. Send the same body again: a signature is accepted once, so "
    "this never bets twice."
)


class NodesDisagree(Problem):
    """The 502 for a bet about which nodes contradict each other, as when its payer moves money back and forth. It
    raises no alarm, unlike nodes that do not answer."""


def region_blocked(region: str) -> Problem:
    return Problem(403, "region_blocked", f"Stock-price markets are not offered in {region}.")


def not_deployed() -> Problem:
    return Problem(503, "not_deployed", "The stock markets are not deployed yet; there is nothing to bet on.")


def already_booked(relayed: RelayedBet, tx: bytes, position: str | None) -> Problem:
    """Refuse a bet whose bettor already received its confirmation. This must not look like a failure, or the bettor
    would bet again. `position`: the id of its position, if known."""
    as_position = "" if position is None else f" as position {position}"
    return Problem(
        409,
        "already_used",
        f"This bet is already booked{as_position} in transaction {hex_of(tx)}; send nothing more. "
        "Its signature is used: to place another bet, sign a new one.",
        extra={"nonce": relayed.nonce_hex, "txHash": hex_of(tx), "positionId": position, "receipt": "confirmed"},
    )


def not_sent(intent: Intent) -> Problem:
    """Refuse a bet that the relayer refused before giving it a nonce."""
    return Problem(
        422,
        "simulation_failed",
        f"The bet was not sent: {intent.reason or 'it would be refused by the contract'}",
        extra={"reason": intent.reason_code},
    )


def payer_limited(intent: Intent, relayed: RelayedBet) -> Problem:
    """Refuse a bet for now because its wallet's reverted bets have cost us too much gas."""
    message = f"The bet was not sent. {intent.reason} You can also send the call in escapeKit yourself."
    return _later(429, "rate_limited", message, 300, relayed)


def funds_reserved(reserved: int, balance: int, relayed: RelayedBet) -> Problem:
    message = (
        f"The wallet holds {decimal_text(balance)} USDG, and its pending bets need {decimal_text(reserved)} of it, "
        "which leaves too little for this one. Send the same body again once they are booked."
    )
    return _later(429, "rate_limited", message, 5, relayed)


def too_many_returned(bets: int, relayed: RelayedBet) -> Problem:
    message = (
        f"In the past hour {bets} bets of this wallet were refunded almost entirely, because their sides were full. "
        "Bet later, on a side with headroom, or send the call in escapeKit yourself."
    )
    return _later(429, "rate_limited", message, 600, relayed)


def busy(waiting: int, relayed: RelayedBet) -> Problem:
    # About a second for every fifty bets ahead, and never longer than a few Ethereum blocks.
    seconds = min(30, 2 + waiting // 50)
    message = f"Many bets are pending. Send the same body again in {seconds} s."
    return _later(503, "busy", message, seconds, relayed, retryAfter=seconds)


def relayer_unavailable(relayed: RelayedBet) -> Problem:
    message = "The relayer is down or out of gas. Send the call in escapeKit yourself, or try again later."
    return _later(503, "relay_unavailable", message, 30, relayed)


def outcome_unknown(relayed: RelayedBet) -> Problem:
    return Problem(502, "relay_failed", _FAILED, extra=with_kit(relayed))


def nodes_disagree(relayed: RelayedBet) -> NodesDisagree:
    return NodesDisagree(502, "relay_failed", _FAILED, extra=with_kit(relayed))


def _later(status: int, code: str, message: str, seconds: int, relayed: RelayedBet, **more: Any) -> Problem:
    headers = {"Retry-After": str(seconds)}
    return Problem(status, code, message, headers=headers, extra={**more, **with_kit(relayed)})


def with_kit(relayed: RelayedBet) -> dict[str, Any]:
    return {"escapeKit": to_builtins(relayed.escape_kit)}
