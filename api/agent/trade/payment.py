"""A signed EIP-3009 authorization, and what makes one acceptable for a bet. Pure.

A payment comes in one of two forms. Stock clients sign `TransferWithAuthorization`, which anybody may send to the
token. Ours sign `ReceiveWithAuthorization`, which only the settlement wallet can take, and only for the one bet that
its nonce names. The first eight bytes of the nonce, a fixed mark, tell the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from core import eip3009
from core.agent.bet import BOUND_ONLY, bound_nonce, is_marked
from core.contracts.deployments import Token
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


@dataclass(frozen=True, slots=True)
class Payment:
    """A signed EIP-3009 authorization. Addresses lower-case; `value` in token units; times in Unix seconds."""

    payer: str
    to: str
    value: int
    valid_after: int
    valid_before: int
    nonce: bytes
    signature: bytes

    @property
    def form(self) -> Form:
        return Form.RECEIVE if is_marked(self.nonce) else Form.TRANSFER

    def is_bound_to(self, bet_hash: bytes) -> bool:
        """Whether the contract takes it for this bet from anybody."""
        return self.nonce == (bound_nonce(bet_hash) if self.form is Form.RECEIVE else bet_hash)


def seconds_to_pay(now: int, closes_at: int) -> int:
    """How long a payment signed now may be good for: not past the end of stakes."""
    return max(0, min(TIMEOUT_SECONDS, closes_at - now))


def check_parties(payment: Payment, *, wallet: str, pay_to: str) -> None:
    """Whether it is from this wallet to us; PaymentRejected names what is wrong."""
    if payment.payer != wallet.lower():
        raise PaymentRejected("authorization.from is not walletAddress.")
    if payment.to != pay_to.lower():
        raise PaymentRejected("authorization.to is not the payTo of the offer.")


def outside_its_window(payment: Payment, *, head_time: int, now: int, closes_at: int) -> str | None:
    """Why it can no longer or not yet be sent, or None. head_time: of the newest block, which it is tried on before it
    is sent: to that it must be valid. `now`: the chain's clock, which runs on between blocks.

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


def not_for(payment: Payment, amount: int, bet_hash: bytes) -> str | None:
    """Why it does not pay this amount for this bet, or None: what its payer bound to another one the contract would
    refuse, too. Its window is another question: what was used has none any more."""
    if payment.value != amount:
        return "authorization.value is not the amount of the offer."
    if payment.is_bound_to(bet_hash):
        return None
    if payment.form is Form.RECEIVE:
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
    """The sentence for a signature of the other form than the nonce says. `form`: what the nonce says."""
    if form is Form.RECEIVE:
        return (
            "The nonce has the mark of bound payments, which take a signature over ReceiveWithAuthorization; this one "
            "is over TransferWithAuthorization."
        )
    return (
        "The signature is over ReceiveWithAuthorization, whose nonce must be extra.receiveNonce; with any other nonce "
        "sign TransferWithAuthorization."
    )


def digest(payment: Payment, token: Token, chain_id: int, form: Form) -> bytes:
    """What a payer signs in this form, in the token's domain."""
    message = {
        "from": payment.payer,
        "to": payment.to,
        "value": payment.value,
        "validAfter": payment.valid_after,
        "validBefore": payment.valid_before,
        "nonce": payment.nonce,
    }
    return eip3009.digest(PRIMARY_TYPES[form], message, token, chain_id)
