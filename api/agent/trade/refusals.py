"""The refusals of a trade, worded in one place.

No payer whose authorization was used is asked for another payment, unless the index holds it as cancelled; as long as
anything else may have become of it, the answer can be asked for again.
"""

from __future__ import annotations

from typing import Any

from api.agent.errors import problem
from api.agent.facts import Stake
from api.agent.trade.rates import AGAIN_SECONDS
from api.http.problem import Problem
from core.agent.book import MIN_STAKE
from core.contracts.statuses import RefundReason
from core.hexadecimal import hex_of
from core.money import decimal_text
from core.outbox import EXPIRED, OVERTAKEN, PAYER_REASONS, Intent

_CLOSED = frozenset({"Closed", "AlreadySettled", "NotOpenYet", "UnknownMarket"})
_PAUSED = frozenset({"StakesArePaused", "MissingRole"})
_SPENT = frozenset(
    {"AuthorizationAlreadyUsed", "AuthorizationUsedOrCanceled", "AuthorizationAlreadyBooked", "IdempotencyKeyUsed"}
)
# It was not settled, and the same request can be: others of its block came first, or it waited for a block too long.
_MISSED = frozenset({OVERTAKEN, EXPIRED})
_YOURS = "Your money is not lost: send the same request again, and pay nothing more for this bet."
_LATER = "Send the same request again later. A wallet whose bets succeed is not held up."
# How long to wait before asking again after a payment whose block is not final.
FINALITY_SECONDS = 10
# How long to wait when too many trades are being checked: a place is held for less than a second.
CROWDED_SECONDS = 2

_REFUNDED_BECAUSE = {
    RefundReason.PAUSED: "stakes were paused",
    RefundReason.NOT_OPEN: "the market was not open yet",
    RefundReason.CLOSED: "the market had closed",
    RefundReason.OUTCOME: "the market has no such outcome",
    RefundReason.AMOUNT: "its size was out of bounds",
    RefundReason.POT_FULL: "its side of the market was full",
    RefundReason.KEY_USED: "its idemKey had settled another payment",
    RefundReason.BOUND: "it was bound to another bet",
    RefundReason.SHARES: "the book had moved past the bet's limits",
    RefundReason.OTHER_AMOUNT: "it brought another amount than the bet says",
}


def _again(message: str, hint: str, seconds: int = AGAIN_SECONDS, tx_hash: str | None = None, **extra: Any) -> Problem:
    """Word a 429: the same request may succeed in so many seconds."""
    if tx_hash is not None:
        extra["txHash"] = tx_hash
    return problem("rate_limited", message, hint=hint, retry_after=seconds, **extra)


def _yours(message: str, tx_hash: str | None) -> Problem:
    """Word a 429: what becomes of the money is known once a block is final."""
    return _again(message, _YOURS, FINALITY_SECONDS, tx_hash)


def _paid(message: str, hint: str, *, moved: bool = True, **extra: Any) -> Problem:
    """Word the end of a payment. `moved`: whether it moved money."""
    return problem("payment_invalid", message, hint=hint, moneyMoved=moved, **extra)


def unavailable(why: str, kit: dict[str, Any] | None = None) -> Problem:
    return problem("platform_paused", f"Settlement is unavailable: {why}.", retry_after=AGAIN_SECONDS, escapeKit=kit)


def no_market(name: str, *, paid: bool) -> Problem:
    """`paid`: a payment came with the request, and was never brought for any bet before."""
    said = f"There is no market {name!r}."
    if not paid:
        return problem("market_not_found", said)
    return problem(
        "market_not_found",
        f"{said} If it was listed a moment ago, a reorganization of the chain has undone that.",
        hint="We did not send your payment, and keep nothing of it: bet on another market.",
    )


def conflict(idem_key: str) -> Problem:
    return problem("idem_conflict", f"The idemKey {idem_key!r} was used for a different trade.")


def spoken_for() -> Problem:
    return problem(
        "payment_invalid",
        "This authorization was brought for another trade and pays for that one only.",
        hint="Send that trade's request again to learn what became of it. Another bet takes a payment of its own.",
    )


def twin(first: bytes) -> Problem:
    """`first`: the hash of the bet that is on its way."""
    trade = hex_of(first)
    return _again(
        "The same bet by this wallet is still settling under another idemKey.",
        f"Wait for trade {trade} to settle, or send this again after a minute to bet once more.",
        tradeId=trade,
    )


def crowded() -> Problem:
    return _again(
        "Many trades are being checked, and this one was not looked at.",
        "Send the same request again; a payment that was accepted before settles all the same.",
        CROWDED_SECONDS,
    )


def promised(amount: int, kit: dict[str, Any] | None) -> Problem:
    """`amount`: what the wallet's other trades will take."""
    return _again(
        f"Trades of this wallet for {decimal_text(amount)} USDC are on their way, and beside them it holds too little "
        "for this one.",
        "Send the same request again once they have settled; nothing of this one was sent.",
        escapeKit=kit,
    )


def settling(kit: dict[str, Any] | None, tx_hash: str | None = None, *, is_on_its_way: bool = False) -> Problem:
    """`tx_hash`: of its latest transaction, once it is signed. `is_on_its_way`: a call that asks again then is not
    counted (`rates`), and may come soon."""
    seconds = 1 if is_on_its_way else AGAIN_SECONDS
    hint = "Send the same request again shortly to fetch the receipt."
    return _again("This idemKey is settling.", hint, seconds, tx_hash, escapeKit=kit)


def closing() -> Problem:
    """The clock has closed the market, and the block that was asked is from before that: a later one may have the
    stake."""
    return _again(
        "The market has closed by the clock, and the newest block is from before that; whether this bet came in is "
        "known with the next block.",
        "Send the same request again in a few seconds, and pay nothing more for this bet.",
    )


def unknown(tx_hash: str, kit: dict[str, Any] | None) -> Problem:
    return problem(
        "internal_error",
        "The transaction was submitted, and its outcome is not recorded yet.",
        hint="Send the same request with the same idemKey to fetch the receipt; do not pay again.",
        txHash=tx_hash,
        escapeKit=kit,
    )


def undone(tx_hash: str | None) -> Problem:
    message = (
        "A reorganization of the chain undid the listing of this market, and the bet with it; whether they come back "
        "is known once the new blocks are final."
    )
    return _yours(message, tx_hash)


# ---------------------------------------------------------------- payments that were used


def unseen() -> Problem:
    return _again(
        "The token says that this authorization was used; by what is not seen yet.",
        "Send the same request again, and pay nothing more for this bet. Should this stay the answer while GET "
        "/health is ok, whoever holds this wallet's key signed the same nonce for somebody else, who was paid.",
    )


def unpaired(tx: bytes) -> Problem:
    message = (
        "This authorization was used, and the token's log does not show what it brought; the operator looks at it."
    )
    return _yours(message, hex_of(tx))


def arriving(value: int, tx: bytes) -> Problem:
    message = f"The payment of {decimal_text(value)} USDC arrived by itself and is booked once its block is final."
    return _yours(message, hex_of(tx))


def other_amount(value: int, amount: int, tx: bytes) -> Problem:
    brought = f"This authorization brought {decimal_text(value)} USDC, and the bet is {decimal_text(amount)};"
    if value < MIN_STAKE:
        return _paid(
            f"{brought} less than {decimal_text(MIN_STAKE)} USDC is not booked: it is a gift.",
            "Nothing comes back. Another bet needs a fresh authorization and a fresh idemKey.",
            txHash=hex_of(tx),
        )
    return _paid(
        f"{brought} what it brought goes back to the wallet.",
        "Nothing to do: the refund is sent to your wallet. Another bet needs a fresh idemKey.",
        txHash=hex_of(tx),
    )


def other_use(why: str, tx: bytes) -> Problem:
    """It brought money, and it does not pay for the bet it is offered for."""
    return _paid(
        f"This authorization was used already, and it does not pay for this bet: {why}",
        "Send the request that it was signed for.",
        txHash=hex_of(tx),
    )


def has_paid(stake: Stake) -> Problem:
    """It has paid for another trade. `stake`: what it was booked as."""
    return _paid(
        "This authorization has already paid for another trade.",
        "Nothing to do: GET /positions shows what it was booked as.",
        tradeId=hex_of(stake.bet_hash),
    )


def cancelled(tx: bytes) -> Problem:
    """The one case in which a fresh authorization is asked for."""
    return _paid(
        "This authorization was cancelled by its signer; it brought nothing and never will.",
        "Sign a new authorization with a fresh nonce and send the trade again.",
        moved=False,
        txHash=hex_of(tx),
    )


def refunded(stake: Stake) -> Problem:
    why = "it could no longer be staked" if stake.refund_reason is None else _REFUNDED_BECAUSE[stake.refund_reason]
    return _paid(
        f"The payment of {decimal_text(stake.amount)} USDC reached the contract when {why}; it is given back whole.",
        "Nothing to do: the refund is sent to your wallet. Another bet needs a fresh idemKey.",
        txHash=hex_of(stake.tx),
    )


# ---------------------------------------------------------------- what the contract refused


def refused(intent: Intent, kit: dict[str, Any] | None) -> Problem:
    """Return what the contract's refusal means, or the relayer's; no money moved by it. `kit`: the call that the payer
    may send without the relayer.

    Return a final refusal only once the chain is known to hold no stake under the key: the bet may have been refused
    because another sender had already placed it.
    """
    why, tx_hash = intent.reason_code or "", intent.tx_hash_hex
    extra: dict[str, Any] = {} if tx_hash is None else {"txHash": tx_hash}
    if why == "TooFewShares":
        return problem("slippage_exceeded", "The book moved past your limits before the bet could settle.", **extra)
    if why in _CLOSED:
        return problem("market_closed", "The market closed before the bet could settle.", **extra)
    if why == "PotFull":
        message = "This side of the market filled up before the bet could settle."
        return problem("pool_impact_exceeded", message, hint="Get a fresh quote for a smaller bet.", **extra)
    if why in _PAUSED:
        return problem("platform_paused", "Stakes are paused.", retry_after=AGAIN_SECONDS, **extra)
    if why in _SPENT:
        message = "This authorization, or this idemKey, was used before the bet could settle."
        return _again(message, _YOURS, tx_hash=tx_hash)
    if why in _MISSED:
        message = "The bet was sent and did not get in: others came first, or its time ran out; no money moved."
        return _again(message, "Send the same request again.", tx_hash=tx_hash)
    if why in PAYER_REASONS:
        return _again(f"The bet was not sent. {intent.reason}", _LATER, 300, escapeKit=kit)
    if why == "ERC20InsufficientBalance":
        return problem("insufficient_balance", "The wallet's USDC no longer covers the bet.", **extra)
    sentence = (intent.reason or "The chain refused the payment.").rstrip(".")
    return problem("payment_invalid", f"{sentence}.", moneyMoved=False, **extra)
