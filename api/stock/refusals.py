"""The refusals of the relay that no check words (`checks`). What a bettor may do without us comes with the call."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from api.http.problem import Problem
from api.stock.bets import RelayedBet
from core.hexadecimal import hex_of
from core.money import decimal_text
from core.outbox import Intent

TOO_MANY = "The relay takes 10 requests a minute."
_FAILED = (
    "The send could not be confirmed; it may have landed. Send the same body again: a signature is accepted once, so "
    "this never bets twice."
)


class UnprovenBet(Problem):
    """The 502 of a bet about which the nodes contradict each other, as when its payer moves money back and forth. It
    raises no alarm; nodes that do not answer do."""


def closed_region(region: str) -> Problem:
    return Problem(403, "region_blocked", f"Stock-price markets are not offered in {region}.")


def not_deployed() -> Problem:
    return Problem(503, "not_deployed", "The stock markets are not deployed yet; there is nothing to bet on.")


def landed_before(relayed: RelayedBet, tx: bytes, position: str | None) -> Problem:
    """Refuse a bet whose bettor already got its confirmation. This must not look like a failure, or the bettor bets
    again. position: the id that its transaction made."""
    as_position = "" if position is None else f" as position {position}"
    return Problem(
        409,
        "already_used",
        f"This very bet is booked{as_position} in transaction {hex_of(tx)}; nothing more is to be sent. "
        "Its signature is used up: only for another bet, sign a new bet.",
        extra={"nonce": relayed.nonce_hex, "txHash": hex_of(tx), "positionId": position, "receipt": "confirmed"},
    )


def not_sent(intent: Intent) -> Problem:
    """Refuse a bet that the relayer refused before it had a nonce."""
    return Problem(
        422,
        "simulation_failed",
        f"The bet was not sent: {intent.reason or 'it would be refused by the contract'}",
        extra={"reason": intent.reason_code},
    )


def of_its_payer(intent: Intent, relayed: RelayedBet) -> Problem:
    """Refuse a bet for now because of what its wallet's bets have cost us."""
    message = f"The bet was not sent. {intent.reason} Or send the call in escapeKit yourself."
    return _later(429, "rate_limited", message, 300, relayed)


def money_on_its_way(promised: int, balance: int, relayed: RelayedBet) -> Problem:
    message = (
        f"The wallet holds {decimal_text(balance)} USDG, and its bets on their way take {decimal_text(promised)} of "
        "it: too little is left for this one. Send the same body again once those are booked."
    )
    return _later(429, "rate_limited", message, 5, relayed)


def returned(bets: int, relayed: RelayedBet) -> Problem:
    message = (
        f"{bets} bets of this wallet within an hour came back nearly whole: their sides were full. Bet later, "
        "where there is headroom, or send the call in escapeKit yourself."
    )
    return _later(429, "rate_limited", message, 600, relayed)


def busy(waiting: int, relayed: RelayedBet) -> Problem:
    # About a second for every fifty bets ahead, and never longer than a few Ethereum blocks.
    seconds = min(30, 2 + waiting // 50)
    message = f"Many bets are on their way. Send the same body again in {seconds} s."
    return _later(503, "busy", message, seconds, relayed, retryAfter=seconds)


def off(relayed: RelayedBet) -> Problem:
    message = "The relayer is off or out of gas. Send the call in escapeKit yourself, or try again later."
    return _later(503, "relay_unavailable", message, 30, relayed)


def failed(relayed: RelayedBet) -> Problem:
    return Problem(502, "relay_failed", _FAILED, extra=with_kit(relayed))


def unproven(relayed: RelayedBet) -> UnprovenBet:
    return UnprovenBet(502, "relay_failed", _FAILED, extra=with_kit(relayed))


def _later(status: int, code: str, message: str, seconds: int, relayed: RelayedBet, **more: Any) -> Problem:
    headers = {"Retry-After": str(seconds)}
    return Problem(status, code, message, headers=headers, extra={**more, **with_kit(relayed)})


def with_kit(relayed: RelayedBet) -> dict[str, Any]:
    return {"escapeKit": to_builtins(relayed.escape_kit)}
