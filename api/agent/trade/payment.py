"""The rules by which a signed authorization pays for a bet, and the call that collects the payment.

A payment comes in one of two forms. Stock clients sign `TransferWithAuthorization`, which anyone may send to the token.
Our clients sign `ReceiveWithAuthorization`. Only the settlement wallet can collect such a payment, and only for the one
bet that the nonce names. The first eight bytes of the nonce, a fixed mark, distinguish the two forms.
"""

from __future__ import annotations

from api.agent.chain import AgentContracts
from api.payments.authorization import Authorization, SignedCall
from core.agent.bet import BOUND_ONLY, ZERO_ADDRESS, Bet, bound_nonce, is_marked
from core.chain import checksum
from core.contracts.statuses import Form
from core.eip3009 import RECEIVE, TRANSFER

TIMEOUT_SECONDS = 120
# Payers' clocks differ from ours; a window longer than this was not made for this challenge.
CLOCK_SLACK_SECONDS = 60
# An authorization that ends sooner could expire while its transaction waits for a block.
MIN_LEFT_SECONDS = 6

PRIMARY_TYPES = {Form.TRANSFER: TRANSFER, Form.RECEIVE: RECEIVE}


class PaymentRejected(Exception):
    """A payment header that does not pay for this trade. The message becomes the `error` of the next challenge."""


def form_of(payment: Authorization) -> Form:
    """Return the form that the nonce implies."""
    return Form.RECEIVE if is_marked(payment.nonce) else Form.TRANSFER


def is_bound_to(payment: Authorization, bet_hash: bytes) -> bool:
    """Return whether the contract accepts the payment for this bet alone, from any sender."""
    return payment.nonce == (bound_nonce(bet_hash) if form_of(payment) is Form.RECEIVE else bet_hash)


def seconds_to_pay(now: int, closes_at: int) -> int:
    """Return for how many seconds a payment signed now may be valid: at most until stakes end."""
    return max(0, min(TIMEOUT_SECONDS, closes_at - now))


def check_parties(payment: Authorization, *, wallet: str, pay_to: str) -> None:
    """Raise PaymentRejected unless the payment is from this wallet to us."""
    if payment.payer != wallet.lower():
        raise PaymentRejected("authorization.from is not walletAddress.")
    if payment.to != pay_to.lower():
        raise PaymentRejected("authorization.to is not the payTo of the offer.")


def window_fault(payment: Authorization, *, head_time: int, now: int, closes_at: int) -> str | None:
    """Return why the payment is not valid now, or None. `head_time`: the time of the newest block, on which the payment
    is simulated. `now`: the chain's clock, which continues between blocks.

    Do not call this for an authorization that was used: its payment is booked whenever the payer comes back.
    """
    seconds = seconds_to_pay(now, closes_at)
    if payment.valid_after >= head_time:
        return "authorization.validAfter lies in the future."
    if payment.valid_before < now + min(MIN_LEFT_SECONDS, seconds):
        return "authorization.validBefore has passed or is about to."
    if payment.valid_before > now + seconds + CLOCK_SLACK_SECONDS:
        return f"authorization.validBefore is more than {seconds} seconds ahead."
    return None


def mismatch(payment: Authorization, amount: int, bet_hash: bytes) -> str | None:
    """Return why the payment is not for this amount and bet, or None. The contract, too, refuses a payment bound to
    another bet. `window_fault` checks when the payment is valid."""
    if payment.value != amount:
        return "authorization.value is not the amount of the offer."
    if is_bound_to(payment, bet_hash):
        return None
    if form_of(payment) is Form.RECEIVE:
        return (
            "authorization.nonce has the mark of bound payments and belongs to another bet; it is not this "
            "extra.receiveNonce."
        )
    if payment.valid_after == BOUND_ONLY:
        return (
            f"authorization.validAfter {BOUND_ONLY} binds it to another bet; its nonce is not this extra.intentNonce."
        )
    return None


def wrong_form(form: Form) -> str:
    """Return why a signature in the other form is wrong. `form`: the form that the nonce implies."""
    if form is Form.RECEIVE:
        return (
            "The nonce has the mark of bound payments, which take a signature over ReceiveWithAuthorization; this one "
            "is over TransferWithAuthorization."
        )
    return (
        "The signature is over ReceiveWithAuthorization, whose nonce must be extra.receiveNonce; with any other nonce "
        "sign TransferWithAuthorization."
    )


def settle_call(contracts: AgentContracts, bet: Bet, payment: Authorization) -> SignedCall:
    """Build the call that settles a bet with its payment."""
    call = contracts.settlement.call(
        "settle",
        (
            bet.market_id,
            bet.outcome,
            bet.amount,
            bet.min_shares,
            checksum(bet.wallet),
            bet.idem_hash,
            checksum(bet.builder) if bet.builder != ZERO_ADDRESS else ZERO_ADDRESS,
            bet.ref,
        ),
        (
            int(form_of(payment)),
            payment.value,
            payment.valid_after,
            payment.valid_before,
            payment.nonce,
            payment.signature,
        ),
    )
    return SignedCall("settle", contracts.chain_id, call, payment)
