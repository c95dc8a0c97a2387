"""What a bet is refused with, worded in one place. Whatever its bettor may do without us comes with the call for it."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from api.http.problem import Problem
from api.stock.relayed import RelayedBet
from core.chain import ContractReverted
from core.hexadecimal import hex_of
from core.money import decimal_text
from core.outbox import Intent
from core.stock.vested import UP

TOO_MANY = "The relay takes 10 requests a minute."
_FAILED = (
    "The send could not be confirmed; it may have landed. Send the same body again: a signature is accepted once, so "
    "this never bets twice."
)


class UnprovenBet(Problem):
    """The 502 of a bet of which the nodes say one thing and then another, as of one whose payer moves its money back
    and forth: that wakes nobody. Nodes that do not answer do."""


def closed_region(region: str) -> Problem:
    return Problem(403, "region_blocked", f"Stock-price markets are not offered in {region}.")


def not_deployed() -> Problem:
    return Problem(503, "not_deployed", "The stock markets are not deployed yet; there is nothing to bet on.")


def expired(message: str) -> Problem:
    return Problem(400, "expired", message)


def market_not_found(market_id: int) -> Problem:
    return Problem(404, "market_not_found", f"No market {market_id} was ever listed.")


def market_closed(why: str) -> Problem:
    return Problem(409, "market_closed", f"{why} It takes no bets.")


def side_is_full(outcome: int, room: int, least: int) -> Problem:
    side, other = ("UP", "DOWN") if outcome == UP else ("DOWN", "UP")
    return Problem(
        400,
        "amount_out_of_bounds",
        f"{side} is full: it takes {decimal_text(room)} USDG more, and a bet is at least "
        f"{decimal_text(least)}. There is room again as {other} grows.",
        extra={"headroom": str(room)},
    )


def contract_signer(relayed: RelayedBet) -> Problem:
    return Problem(
        400,
        "contract_signer",
        "The signing wallet is a smart contract; gasless bets need a regular wallet's signature. Send the call "
        "in escapeKit yourself: the token asks your wallet to confirm the signature (ERC-1271).",
        extra=_with(relayed),
    )


def bad_signature(message: str) -> Problem:
    return Problem(400, "bad_signature", message)


def already_used() -> Problem:
    return Problem(409, "already_used", "This signature was already used or cancelled; sign a new bet.")


def landed_before(relayed: RelayedBet, tx: bytes, position: str | None) -> Problem:
    """Its bettor was told so. Who asks after a bet must not take this for a refusal, and bet again. position: that its
    transaction made."""
    as_position = "" if position is None else f" as position {position}"
    return Problem(
        409,
        "already_used",
        f"This very bet is booked{as_position} in transaction {hex_of(tx)}; nothing more is to be sent. "
        "Its signature is used up: only for another bet, sign a new bet.",
        extra={"nonce": relayed.nonce_hex, "txHash": hex_of(tx), "positionId": position, "receipt": "confirmed"},
    )


def insufficient_balance(balance: int, amount: int) -> Problem:
    return Problem(
        422,
        "insufficient_balance",
        f"The wallet holds {decimal_text(balance)} USDG on this chain, and the bet is {decimal_text(amount)}. Add "
        "USDG and send the body again.",
    )


def would_revert(reverted: ContractReverted) -> Problem:
    return Problem(
        422,
        "simulation_failed",
        f"The bet would be refused by the contract. {reverted.message}",
        extra={"reason": reverted.name},
    )


def not_sent(intent: Intent) -> Problem:
    """The relayer refused it before it had a nonce."""
    return Problem(
        422,
        "simulation_failed",
        f"The bet was not sent: {intent.reason or 'it would be refused by the contract'}",
        extra={"reason": intent.reason_code},
    )


def of_its_payer(intent: Intent, relayed: RelayedBet) -> Problem:
    """What its wallet's bets have cost us forbids it for now."""
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
    return Problem(502, "relay_failed", _FAILED, extra=_with(relayed))


def unproven(relayed: RelayedBet) -> UnprovenBet:
    return UnprovenBet(502, "relay_failed", _FAILED, extra=_with(relayed))


def _later(status: int, code: str, message: str, seconds: int, relayed: RelayedBet, **more: Any) -> Problem:
    headers = {"Retry-After": str(seconds)}
    return Problem(status, code, message, headers=headers, extra={**more, **_with(relayed)})


def _with(relayed: RelayedBet) -> dict[str, Any]:
    return {"escapeKit": to_builtins(relayed.escape_kit)}
