"""The refusals of a trade, with all their texts. The payer is asked for another payment only if the index shows the
authorization as cancelled. While the outcome of an authorization is unknown, the refusal is retriable."""

from __future__ import annotations

from typing import Any

from api.agent.errors import problem
from api.agent.facts import Stake
from api.agent.trade.orders import AGAIN_SECONDS
from api.problems import Problem
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
# The bet did not settle, but the same request may: other bets came first in its block, or it was not mined in time.
_MISSED = frozenset({OVERTAKEN, EXPIRED})
_MONEY_SAFE = "Your money is safe: send the same request again, and do not pay for this bet again."
_RETRY_LATER = "Send the same request again later. Wallets whose bets succeed are not limited."
# How long to wait before retrying after a payment whose block is not final.
FINALITY_SECONDS = 10

_REFUNDED_BECAUSE = {
    RefundReason.PAUSED: "stakes were paused",
    RefundReason.NOT_OPEN: "the market was not open yet",
    RefundReason.CLOSED: "the market had closed",
    RefundReason.OUTCOME: "the market had no such outcome",
    RefundReason.AMOUNT: "its size was out of bounds",
    RefundReason.POT_FULL: "its side of the market was full",
    RefundReason.KEY_USED: "its idemKey had settled another payment",
    RefundReason.BOUND: "it was bound to another bet",
    RefundReason.SHARES: "the price had moved past the bet's limits",
    RefundReason.OTHER_AMOUNT: "its amount differed from the bet's",
}


def _retry(message: str, hint: str, seconds: int = AGAIN_SECONDS, tx_hash: str | None = None, **extra: Any) -> Problem:
    """Return a refusal of a request that may succeed in `seconds`."""
    if tx_hash is not None:
        extra["txHash"] = tx_hash
    return problem("rate_limited", message, hint=hint, retry_after=seconds, **extra)


def _money_safe(message: str, tx_hash: str | None) -> Problem:
    """Return a refusal that asks the client to retry after the payment's outcome has become final."""
    return _retry(message, _MONEY_SAFE, FINALITY_SECONDS, tx_hash)


def _paid(message: str, hint: str, *, moved: bool = True, **extra: Any) -> Problem:
    """Refuse a payment for good. `moved`: whether the payment moved money."""
    return problem("payment_invalid", message, hint=hint, moneyMoved=moved, **extra)


def unavailable(why: str) -> Problem:
    return problem("platform_paused", f"Settlement is unavailable: {why}.", retry_after=AGAIN_SECONDS)


def no_market(name: str, *, paid: bool) -> Problem:
    """Refuse an unknown market. `paid`: whether the request has a payment that was not sent for any bet."""
    if not paid:
        return problem("market_not_found", f"There is no market {name!r}.")
    message = f"There is no market {name!r}; if it was listed a moment ago, a chain reorganization has undone that."
    return problem("market_not_found", message, hint="Your payment was not sent: bet on another market.")


def conflict(idem_key: str) -> Problem:
    return problem("idem_conflict", f"The idemKey {idem_key!r} was used for a different trade.")


def authorization_taken() -> Problem:
    return problem(
        "payment_invalid",
        "This authorization was sent for another trade and pays only for that one.",
        hint="Send that trade's request again to learn its outcome. Another bet needs a separate payment.",
    )


def duplicate_in_flight(first: bytes) -> Problem:
    """Refuse a bet because the same bet is already in flight under another key. `first` is the hash of that earlier
    bet."""
    trade = hex_of(first)
    return _retry(
        "The same bet by this wallet is still settling under another idemKey.",
        f"Wait for trade {trade} to settle, or send this again after a minute to bet once more.",
        tradeId=trade,
    )


def funds_reserved(amount: int) -> Problem:
    """Refuse a trade because the wallet cannot pay for it in addition to its pending trades, which need `amount`."""
    return _retry(
        f"This wallet's pending trades need {decimal_text(amount)} USDC, which leaves too little for this one.",
        "Send the same request again once they have settled; this trade was not sent.",
    )


def settling(tx_hash: str | None = None, *, in_flight: bool = False) -> Problem:
    """Report an unknown outcome. While the trade is `in_flight`, repeated calls are not counted, so the client may
    retry soon."""
    seconds = 1 if in_flight else AGAIN_SECONDS
    hint = "Send the same request again shortly to fetch the receipt."
    return _retry("The trade with this idemKey is still settling.", hint, seconds, tx_hash)


def closing() -> Problem:
    """Report an unknown outcome: the market has closed by the clock, but the next block may still contain the stake."""
    return _retry(
        "The market's closing time has passed, but only the next block will show whether this bet was placed in time.",
        "Send the same request again in a few seconds, and do not pay for this bet again.",
    )


def unknown(tx_hash: str) -> Problem:
    return problem(
        "internal_error",
        "The transaction was submitted, but its outcome has not been recorded yet.",
        hint="Send the same request with the same idemKey to fetch the receipt; do not pay again.",
        txHash=tx_hash,
    )


def listing_undone(tx_hash: str | None) -> Problem:
    message = (
        "A chain reorganization undid the listing of this market and this bet; whether they return is known once the "
        "new blocks are final."
    )
    return _money_safe(message, tx_hash)


# ---------------------------------------------------------------- payments that were used


def payment_not_indexed() -> Problem:
    return _retry(
        "The token reports this authorization as used, but the transaction that used it has not been indexed yet.",
        "Send the same request again, and do not pay for this bet again. If the response stays the same while GET "
        "/health is ok, this wallet signed the same nonce for another recipient, who was paid.",
    )


def unpaired(tx: bytes) -> Problem:
    message = (
        "This authorization was used, but the token's log does not show its payment; the operator will investigate."
    )
    return _money_safe(message, hex_of(tx))


def not_booked_yet(value: int, tx: bytes) -> Problem:
    message = (
        f"The payment of {decimal_text(value)} USDC reached the contract directly; it will be booked once its block is "
        "final."
    )
    return _money_safe(message, hex_of(tx))


def other_amount(value: int, amount: int, tx: bytes) -> Problem:
    paid = f"This authorization paid {decimal_text(value)} USDC, but the bet is {decimal_text(amount)} USDC;"
    if value < MIN_STAKE:
        paid = f"{paid} payments below {decimal_text(MIN_STAKE)} USDC are not booked and count as a gift."
        hint = "The payment will not be refunded. Another bet needs a fresh authorization and a fresh idemKey."
    else:
        paid = f"{paid} the payment is being refunded to the wallet."
        hint = "No action is needed: the refund goes to your wallet. Another bet needs a fresh idemKey."
    return _paid(paid, hint, txHash=hex_of(tx))


def other_use(why: str, tx: bytes) -> Problem:
    """Refuse an authorization that moved money but does not pay for the bet it was sent for."""
    return _paid(
        f"This authorization was already used, and it does not pay for this bet: {why}",
        "Send the request it was signed for.",
        txHash=hex_of(tx),
    )


def has_paid(stake: Stake) -> Problem:
    """Refuse an authorization that was booked as the stake of another trade."""
    message = "This authorization has already paid for another trade."
    return _paid(message, "No action is needed: GET /positions shows that trade.", tradeId=hex_of(stake.bet_hash))


def cancelled(tx: bytes) -> Problem:
    """Refuse a cancelled authorization and ask for a new one. No other refusal of a used authorization asks for one."""
    return _paid(
        "This authorization was cancelled by its signer and can never pay.",
        "Sign a new authorization with a fresh nonce and send the trade again.",
        moved=False,
        txHash=hex_of(tx),
    )


def refunded(stake: Stake) -> Problem:
    why = "it could no longer be staked" if stake.refund_reason is None else _REFUNDED_BECAUSE[stake.refund_reason]
    return _paid(
        f"The payment of {decimal_text(stake.amount)} USDC is being refunded in full: when it reached the contract, "
        f"{why}.",
        "No action is needed: the refund goes to your wallet. Another bet needs a fresh idemKey.",
        txHash=hex_of(stake.tx),
    )


# ---------------------------------------------------------------- what the contract refused


def refused(intent: Intent) -> Problem:
    """Return the refusal for the reason that the contract or the relayer gave. The refused attempt moved no money.

    Send a final refusal only after confirming that the chain holds no stake under the key, because someone else may
    have placed the bet.
    """
    why, tx_hash = intent.reason_code or "", intent.tx_hash_hex
    extra: dict[str, Any] = {} if tx_hash is None else {"txHash": tx_hash}
    if why == "TooFewShares":
        return problem("slippage_exceeded", "The price moved past your limits before the bet could settle.", **extra)
    if why in _CLOSED:
        return problem("market_closed", "The market closed before the bet could settle.", **extra)
    if why == "PotFull":
        message = "This side of the market filled up before the bet could settle."
        return problem("pool_impact_exceeded", message, hint="Get a fresh quote for a smaller bet.", **extra)
    if why in _PAUSED:
        return problem("platform_paused", "Stakes are paused.", retry_after=AGAIN_SECONDS, **extra)
    if why in _SPENT:
        message = "This authorization or this idemKey was used before the bet could settle."
        return _retry(message, _MONEY_SAFE, tx_hash=tx_hash)
    if why in _MISSED:
        message = "The bet was sent but not placed: other bets came first, or its time ran out; no money moved."
        return _retry(message, "Send the same request again.", tx_hash=tx_hash)
    if why in PAYER_REASONS:
        return _retry(f"The bet was not sent. {intent.reason}", _RETRY_LATER, 300)
    if why == "ERC20InsufficientBalance":
        return problem("insufficient_balance", "The wallet's USDC no longer covers the bet.", **extra)
    sentence = (intent.reason or "The chain refused the payment.").rstrip(".")
    return problem("payment_invalid", f"{sentence}.", moneyMoved=False, **extra)
