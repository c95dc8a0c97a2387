"""The rules by which a signed authorization pays for a bet, and the call that takes it.

A payment comes in one of two forms. Stock clients sign `TransferWithAuthorization`, which anyone may send to the token.
Ours sign `ReceiveWithAuthorization`, which only the settlement wallet can take, and only for the one bet that its nonce
names. The first eight bytes of the nonce, a fixed mark, distinguish the two.
"""

from __future__ import annotations

from api.agent.chain import AgentContracts
from api.payments.authorization import Authorization
from core.agent.bet import BOUND_ONLY, ZERO_ADDRESS, Bet, bound_nonce, is_marked
from core.chain import Call, checksum
from core.contracts.statuses import Form
from core.eip3009 import RECEIVE, TRANSFER

TIMEOUT_SECONDS = 120
# Payers' clocks differ from ours; beyond this much more the window was not made for this challenge.
CLOCK_SLACK_SECONDS = 60
# An authorization that ends sooner could run out while its transaction waits for a block.
MIN_LEFT_SECONDS = 6

PRIMARY_TYPES = {Form.TRANSFER: TRANSFER, Form.RECEIVE: RECEIVE}


class PaymentRejected(Exception):
    """The refusal of a header that does not pay for this trade; the sentence goes into the next challenge's `error`."""


def form_of(payment: Authorization) -> Form:
    """Return the form that the nonce says."""
    return Form.RECEIVE if is_marked(payment.nonce) else Form.TRANSFER


def is_bound_to(payment: Authorization, bet_hash: bytes) -> bool:
    """Return whether the contract takes it for this bet, from any sender."""
    return payment.nonce == (bound_nonce(bet_hash) if form_of(payment) is Form.RECEIVE else bet_hash)


def seconds_to_pay(now: int, closes_at: int) -> int:
    """Return how long a payment signed now may be good for: not past the end of stakes."""
    return max(0, min(TIMEOUT_SECONDS, closes_at - now))


def check_parties(payment: Authorization, *, wallet: str, pay_to: str) -> None:
    """Raise PaymentRejected, which names what is wrong, unless it is from this wallet to us."""
    if payment.payer != wallet.lower():
        raise PaymentRejected("authorization.from is not walletAddress.")
    if payment.to != pay_to.lower():
        raise PaymentRejected("authorization.to is not the payTo of the offer.")


def outside_its_window(payment: Authorization, *, head_time: int, now: int, closes_at: int) -> str | None:
    """Return why it can no longer or not yet be sent, or None. head_time: of the newest block, on which it is tried
    before it is sent, and must be valid. `now`: the chain's clock, which runs on between blocks.

    One that was used already has no window any more: what it brought is booked whenever its payer comes.
    """
    seconds = seconds_to_pay(now, closes_at)
    if payment.valid_after >= head_time:
        return "authorization.validAfter lies in the future."
    if payment.valid_before < now + min(MIN_LEFT_SECONDS, seconds):
        return "authorization.validBefore has passed or is about to."
    if payment.valid_before > now + seconds + CLOCK_SLACK_SECONDS:
        return f"authorization.validBefore is more than {seconds} seconds ahead."
    return None


def not_for(payment: Authorization, amount: int, bet_hash: bytes) -> str | None:
    """Return why it does not pay this amount for this bet, or None: the contract, too, would refuse what its payer
    bound to another one. Its window is another question: what was used has none any more."""
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
    """Word the refusal of a signature of the other form than the nonce says. `form`: what the nonce says."""
    if form is Form.RECEIVE:
        return (
            "The nonce has the mark of bound payments, which take a signature over ReceiveWithAuthorization; this one "
            "is over TransferWithAuthorization."
        )
    return (
        "The signature is over ReceiveWithAuthorization, whose nonce must be extra.receiveNonce; with any other nonce "
        "sign TransferWithAuthorization."
    )


def payment_call(contracts: AgentContracts, name: str, bet: Bet, payment: Authorization) -> Call:
    """Build `settle` or `credit` of a payment; what follows the selector is the same for both."""
    return contracts.settlement.call(
        name,
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
