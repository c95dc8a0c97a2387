"""One bet, exactly once: quote, lock, bound payment, trade, the same again until its outcome is known, final, verified.

Two fixed values make it happen once. The idempotency key is chosen before anything is sent, and the contract takes a
wallet's key once. The payment's nonce is the hash of the bet, and the token takes a nonce once. If a request or an
answer is lost, the same request is sent again; nothing here ever makes a second key.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import msgspec

from vpm_client import bound, calls
from vpm_client.call import PREFIX, Amount, Call, Lost, Reply, decimal, decoded, decoder, json_body, to_json, units
from vpm_client.errors import (
    ApiError,
    NotFinal,
    OutcomeUnknown,
    Payment,
    PaymentRefused,
    ReceiptWrong,
    UnexpectedAnswer,
    Unreachable,
    Untrusted,
    VpmError,
)
from vpm_client.models import (
    AgentChallenge,
    AgentPaymentOffer,
    AgentTradeAnswer,
    AgentTradeProofAnswer,
    AgentTradeReceipt,
)
from vpm_client.steps import Keep, Patience, Pause, Settings, Sign, Steps, ask, asked

SIMPLE_MAX_USD = 10
TRADE_SECONDS = 45.0
"""Longer than the service waits for the chain, so that it is not asked twice at once."""
ABOUT_TO_END_SECONDS = 15
MAX_VALIDITY_SECONDS = 600
MAX_QUOTES = 5
FINAL_PAUSE_SECONDS = 1.0
HAS_NOT_LOOKED = ("platform_disabled", "not_found", "method_not_allowed", "payload_too_large", "unsupported_media_type")
"""Refusals by which the bet itself was not read."""
KNOWS_NO_BETS = (*HAS_NOT_LOOKED, "invalid_request", "invalid_wallet")
"""Refusals that come before the service checks whether the bet is on the chain."""


class SignedPayment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A payment as it was signed, for one bet. `header`: what goes into `X-PAYMENT`."""

    header: str
    valid_before: int


class Ticket(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A bet and all it takes to go on with it, also in another process: `to_json`, `Ticket.from_json`, `place`.

    A ticket with a payment lets its holder have that one bet made, and nothing else. `was_made`: whether the service
    had the bet on the chain when the ticket was prepared.
    """

    market_id: str
    market_key: str
    contract: str
    side: str
    outcome: int
    size_usd: Decimal
    min_shares_out: Decimal
    idem_key: str
    wallet: str
    quote_id: str | None = None
    builder_code: str | None = None
    callback_url: str | None = None
    ref: str | None = None
    payment: SignedPayment | None = None
    was_made: bool = False

    @property
    def hash(self) -> bytes:
        """Return the bet's hash, which is the trade's id."""
        return bound.bet_hash(
            contract=self.contract,
            market_key=bytes.fromhex(self.market_key[2:]),
            outcome=self.outcome,
            amount=units(self.size_usd),
            min_shares=units(self.min_shares_out),
            wallet=self.wallet,
            idem_key=self.idem_key,
            builder=self.builder_code,
            ref=self.ref,
        )

    @property
    def trade_id(self) -> str:
        return "0x" + self.hash.hex()

    def to_json(self) -> bytes:
        return to_json(self)

    @classmethod
    def from_json(cls, text: bytes | str) -> Ticket:
        return decoder(cls).decode(text)


@dataclass(frozen=True, slots=True)
class Placed:
    """A bet that is on the chain. `attester`: who signed the receipt, None where the service signs none; `replay`:
    whether an earlier call had settled it; `proof`: only when it was waited for until final."""

    ticket: Ticket
    receipt: AgentTradeReceipt
    attester: str | None
    replay: bool
    proof: AgentTradeProofAnswer | None = None

    @property
    def is_final(self) -> bool:
        return self.proof is not None


KeepTicket = Callable[[Ticket], object]
"""Shown a ticket whenever it changes. It may be asynchronous for an AsyncClient."""


# ---------------------------------------------------------------- from a wish to a ticket


def bet(
    settings: Settings,
    market: str,
    side: str,
    size_usd: Amount,
    *,
    idem_key: str | None = None,
    min_shares: Amount | None = None,
    builder_code: str | None = None,
    callback_url: str | None = None,
    ref: str | None = None,
    final: bool = True,
    keep: KeepTicket | None = None,
) -> Steps[Placed]:
    """Make one bet, exactly once, and verify its receipt. `final`: whether to wait until its block cannot be undone.

    `min_shares`: what it must give at least, else a hundredth under the quote. `keep` gets the ticket whenever it
    changes, before anything is sent with it: a stored ticket outlives this process, and `place` goes on with it. An
    asynchronous client that is cancelled may have paid: go on with that ticket. With your own `idem_key`, calling this
    again with the same bet returns the outcome of the first call, even if the market has closed since; `payment` is
    `UNKNOWN` where the service cannot say.
    """
    ticket = yield from prepare(
        settings,
        market,
        side,
        size_usd,
        idem_key=idem_key,
        min_shares=min_shares,
        builder_code=builder_code,
        callback_url=callback_url,
        ref=ref,
    )
    if keep is not None:
        yield Keep(ticket, keep)
    return (yield from place(settings, ticket, final=final, keep=keep))


def prepare(
    settings: Settings,
    market: str,
    side: str,
    size_usd: Amount,
    *,
    idem_key: str | None = None,
    min_shares: Amount | None = None,
    builder_code: str | None = None,
    callback_url: str | None = None,
    ref: str | None = None,
) -> Steps[Ticket]:
    """The ticket of a bet, by a quote and, above 10 USD, its lock; or by what was bet before under a key of the
    caller's own. Nothing is signed and nothing is paid. Takes what `bet` takes."""
    patience = Patience(settings.patience_seconds)
    wallet, size = settings.address, decimal(size_usd)
    before: AgentTradeReceipt | None = None
    if idem_key is not None:
        same = {"marketId": market, "side": side, "sizeUsd": size, "idemKey": idem_key, "walletAddress": wallet}
        more = {"builderCode": builder_code, "callbackUrl": callback_url, "ref": ref}
        before = yield from made_before(trade_call({**same, **more}), patience)
    try:
        listed = (yield from asked(calls.market(market), patience)).market
        if before is None:
            quote = (yield from asked(calls.quote(listed.id, side=side, size_usd=size, wallet=wallet), patience)).quote
            taken, least, quote_id = quote.side, quote.suggested_min_shares_out, quote.quote_id
        else:
            taken, least, quote_id = before.side, before.position.shares, None
        keys = [each.key for each in listed.outcomes or ()]
        if taken not in keys:
            raise Untrusted(f"The service speaks of {taken!r}, which market {listed.id} does not have.")
        if "0x" + bound.market_key(listed.id).hex() != listed.settlement.market_key.lower():
            raise Untrusted(f"The contract's key of market {listed.id} is not the hash of its id.")
        contract = listed.settlement.contract
        if settings.contract is not None and contract.lower() != settings.contract.lower():
            raise Untrusted(f"The service settles by {contract}, and you named {settings.contract}.")
    except VpmError as error:
        error.payment = Payment.NONE if before is None else Payment.MADE
        raise
    return Ticket(
        market_id=listed.id,
        market_key=listed.settlement.market_key,
        contract=contract,
        side=taken,
        outcome=keys.index(taken),
        size_usd=size,
        min_shares_out=least if min_shares is None else decimal(min_shares),
        idem_key=idem_key or f"bet-{secrets.token_hex(16)}",
        wallet=wallet,
        quote_id=quote_id if size > SIMPLE_MAX_USD else None,
        builder_code=builder_code,
        callback_url=callback_url,
        ref=ref,
        was_made=before is not None,
    )


def made_before(unpaid: Call[AgentTradeAnswer], patience: Patience) -> Steps[AgentTradeReceipt | None]:
    """Return the receipt of the bet under the caller's key, None where there is none. Asked before the quote, which a
    closed market no longer gives. Raises when it cannot find out: another bet might then be a second one."""
    while True:
        heard = yield from ask(unpaid)
        try:
            if isinstance(heard, Lost):
                raise Unreachable(f"What became of an earlier call could not be asked: {heard.why}")
            return bet_under_key(heard)
        except VpmError as wrong:
            error = wrong
        refused = error if isinstance(error, ApiError) else None
        may_pass = isinstance(heard, Lost) or (refused is not None and refused.retriable and refused.is_final)
        pause = patience.next(None if refused is None else refused.retry_after) if may_pass else None
        if pause is None:
            error.payment = Payment.MADE if refused is not None and refused.money_moved else Payment.UNKNOWN
            raise error
        yield Pause(pause)


def bet_under_key(reply: Reply) -> AgentTradeReceipt | None:
    """Read an unpaid call's answer: the receipt of the bet under its key, None where there is none. Raises if it shows
    neither: something other than the API that asks for money, or says OK, knows nothing about the bet."""
    if reply.status == 200:
        return decoded(AgentTradeAnswer, reply.body).receipt
    if reply.status == 402:
        if not decoded(AgentChallenge, reply.body).accepts:
            raise UnexpectedAnswer("The challenge offers no way to pay.")
        return None
    error = ApiError(reply.status, reply.headers, reply.body)
    if not is_of_no_bet(error):
        raise error
    return None


def is_of_no_bet(error: ApiError) -> bool:
    """Return whether an unpaid call's refusal shows that its key holds no bet: the wallet's same bet is on its way
    under another key, or the refusal is final and the service had looked."""
    is_for_good = bool(error.code) and error.code not in HAS_NOT_LOOKED and not error.retriable and error.is_final
    return not error.money_moved and (error.trade_id is not None or is_for_good)


def trade_call(body: Mapping[str, Any], payment: SignedPayment | None = None) -> Call[AgentTradeAnswer]:
    headers = {"Content-Type": "application/json"}
    if payment is not None:
        headers["X-PAYMENT"] = payment.header
    return Call(
        "POST", f"{PREFIX}/trade", AgentTradeAnswer, body=json_body(body), headers=headers, seconds=TRADE_SECONDS
    )


# ---------------------------------------------------------------- from a ticket to a stake


def place(settings: Settings, ticket: Ticket, *, final: bool = True, keep: KeepTicket | None = None) -> Steps[Placed]:
    """Goes on with a ticket, new or from before, until its stake is on the chain, or final; or raises why not. However
    often it is called: one bet."""
    under_way = _Bet(ticket, settings, keep)
    placed = yield from under_way.staked()
    ends = time.monotonic() + settings.final_seconds
    while final:
        proof = yield from under_way.made_final(placed, ends)
        if proof is not None:
            return replace(placed, proof=proof)
        # A reorganization took its block: the same request puts it back, or says where it is now.
        yield Pause(FINAL_PAUSE_SECONDS)
        placed = yield from under_way.staked_again(placed)
    return placed


class _Bet:
    """A ticket on its way."""

    def __init__(self, ticket: Ticket, settings: Settings, keep: KeepTicket | None) -> None:
        self.ticket = ticket
        self.settings = settings
        self.keep = keep
        # Whether a call with the payment may have arrived without our hearing what became of it; also in a process
        # before this one.
        self.in_the_dark = ticket.payment is not None
        # How often the payment may have been sent; one that a process before this one signed counts as sent by it.
        self.sent = 0 if ticket.payment is None else 1
        self.attester = settings.attester

    def staked(self) -> Steps[Placed]:
        patience, quotes, tx_hash = Patience(self.settings.patience_seconds), 0, None
        why = "no answer"
        while True:
            self.sent += self.ticket.payment is not None
            heard = yield from ask(self.trade())
            if isinstance(heard, Reply) and heard.status == 200:
                return (yield from self.receipt(heard, patience))
            challenge = self.challenge(heard)
            if challenge is not None:
                if self.ticket.payment is not None:
                    yield from self.rest(patience, self.why_refused(challenge))
                yield from self.pay(challenge)
                continue
            least = None
            if isinstance(heard, Lost):
                why = heard.why
                self.in_the_dark = self.in_the_dark or self.ticket.payment is not None
            else:
                error = ApiError(heard.status, heard.headers, heard.body)
                if error.code in ("quote_expired", "quote_mismatch") and quotes < MAX_QUOTES:
                    quotes += 1
                    yield from self.lock_again(patience, error)
                    continue
                if not error.code and self.ticket.payment is not None:
                    # Not the API's: of something before it, which knows nothing of the bet and may have passed it on.
                    self.in_the_dark = True
                elif self.is_over_for_now(error) or self.is_of_a_twin(error):
                    raise self.with_payment(error, self.refused(error))
                why, least, tx_hash = str(error), error.retry_after, error.tx_hash or tx_hash
            yield from self.rest(patience, why, least, tx_hash)

    def staked_again(self, placed: Placed) -> Steps[Placed]:
        """After its block is gone. As long as the service does not refuse it for good, it is as it was."""
        try:
            return (yield from self.staked())
        except VpmError as error:
            if error.payment is Payment.REFUSED:
                raise
            raise self.not_final(placed, str(error)) from error

    def is_over_for_now(self, error: ApiError) -> bool:
        """Asking again within our patience changes nothing: the bet must change, or what a block refused waits for the
        chain to undo that block, which may take many minutes."""
        return not error.retriable or (not error.is_final and error.status < 429)

    def is_of_a_twin(self, error: ApiError) -> bool:
        """The wallet's same bet is on its way under another key. Whether there shall be a second one is the caller's
        to say: waiting until the first is settled would make it."""
        return error.code == "rate_limited" and error.trade_id not in (None, self.ticket.trade_id)

    def rest(self, patience: Patience, why: str, least: float | None = None, tx_hash: str | None = None) -> Steps[None]:
        pause = patience.next(least)
        if pause is None:
            raise self.out_of_time(why, tx_hash)
        yield Pause(pause)

    def trade(self) -> Call[AgentTradeAnswer]:
        ticket = self.ticket
        body = {
            "marketId": ticket.market_id,
            "side": ticket.side,
            "sizeUsd": ticket.size_usd,
            "idemKey": ticket.idem_key,
            "walletAddress": ticket.wallet,
            "quoteId": ticket.quote_id,
            "minSharesOut": ticket.min_shares_out or None,
            "builderCode": ticket.builder_code,
            "callbackUrl": ticket.callback_url,
            "ref": ticket.ref,
        }
        return trade_call(body, ticket.payment)

    # ------------------------------------------------------------ paying

    def challenge(self, heard: Reply | Lost) -> AgentChallenge | None:
        """Return what the answer asks for the bet; None if nothing. Once a payment was sent, only a challenge for this
        very bet counts: anything else that asks for money is not the API, and knows nothing about the bet."""
        if isinstance(heard, Lost) or heard.status != 402:
            return None
        try:
            challenge = decoded(AgentChallenge, heard.body)
            if self.ticket.payment is not None:
                self.checked(challenge)
        except VpmError:
            return None
        return challenge

    def why_refused(self, challenge: AgentChallenge) -> str:
        """Why a payment was answered by another challenge, if that is because its time has passed; else it is
        refused."""
        why = challenge.error or "The payment was not taken."
        payment = self.ticket.payment
        if payment is not None and time.time() < payment.valid_before - ABOUT_TO_END_SECONDS:
            raise self.with_payment(PaymentRefused(why), self.at_worst())
        return why

    def pay(self, challenge: AgentChallenge) -> Steps[None]:
        """Signs what the challenge asks for, if that is this bet. A payment whose time has passed is signed anew with
        its own nonce: the token takes that once, so it stays one payment."""
        try:
            offer = self.checked(challenge)
        except Untrusted as wrong:
            raise self.with_payment(wrong, Payment.NONE) from None
        until = int(time.time()) + min(offer.max_timeout_seconds, MAX_VALIDITY_SECONDS)
        typed = bound.authorization(
            token=offer.asset,
            name=offer.extra.name,
            version=offer.extra.version,
            payer=self.ticket.wallet,
            to=offer.pay_to,
            value=int(offer.max_amount_required),
            until=until,
            nonce=bound.bound_nonce(self.ticket.hash),
        )
        signed = {
            name: "0x" + value.hex() if isinstance(value, bytes) else str(value)
            for name, value in typed.message.items()
        }
        signature: bytes = yield Sign(typed)
        payload = {"signature": "0x" + signature.hex(), "authorization": signed}
        envelope = {"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload}
        header = base64.b64encode(msgspec.json.encode(envelope)).decode()
        yield from self.change(payment=SignedPayment(header=header, valid_before=until))

    def change(self, **fields: Any) -> Steps[None]:
        """Changes the ticket, and shows it to the caller."""
        self.ticket = msgspec.structs.replace(self.ticket, **fields)
        if self.keep is not None:
            yield Keep(self.ticket, self.keep)

    def checked(self, challenge: AgentChallenge) -> AgentPaymentOffer:
        """The offer, if it asks for this bet's amount and for this bet alone."""
        if not challenge.accepts:
            raise Untrusted("The challenge offers no way to pay.")
        offer = challenge.accepts[0]
        compared = {
            "scheme": (offer.scheme, "exact"),
            "network": (offer.network, "base"),
            "maxAmountRequired": (offer.max_amount_required, str(units(self.ticket.size_usd))),
            "payTo": (offer.pay_to.lower(), self.ticket.contract.lower()),
            "asset": (offer.asset.lower(), (self.settings.token or offer.asset).lower()),
            "extra.receivePrimaryType": (offer.extra.receive_primary_type, bound.RECEIVE),
            "extra.receiveNonce": (
                offer.extra.receive_nonce.lower(),
                "0x" + bound.bound_nonce(self.ticket.hash).hex(),
            ),
        }
        for name, (given, ours) in compared.items():
            if given != ours:
                raise Untrusted(f"The challenge's {name} is {given}; for this bet it is {ours}. Nothing was signed.")
        return offer

    def lock_again(self, patience: Patience, refusal: ApiError) -> Steps[None]:
        """Another lock for the same bet: its limits, its hash and with it the payment stay as they are. `refusal`: what
        the bet was refused with, which alone says anything of the payment where there is no other lock."""
        ticket = self.ticket
        again = calls.quote(ticket.market_id, side=ticket.side, size_usd=ticket.size_usd, wallet=ticket.wallet)
        try:
            quote = (yield from asked(again, patience)).quote
        except Unreachable as error:
            raise self.out_of_time(str(error), None) from None
        except VpmError as error:
            raise self.with_payment(error, self.refused(refusal)) from None
        yield from self.change(quote_id=quote.quote_id)

    # ------------------------------------------------------------ what came of it

    def receipt(self, reply: Reply, patience: Patience) -> Steps[Placed]:
        """The receipt, if it is this bet's and the service's key signed it."""
        try:
            body = decoded(AgentTradeAnswer, reply.body)
        except VpmError as error:
            raise self.with_payment(error, Payment.UNKNOWN if self.ticket.payment else Payment.NONE) from None
        self.in_the_dark = self.ticket.payment is not None  # it was taken: from here on only a verdict says otherwise
        try:
            self.check(body.receipt, replay=body.replay)
            if self.attester is None:
                self.attester = (yield from asked(calls.health(), patience)).health.attester
            self.check_signature(body)
        except VpmError as error:
            raise self.with_payment(error, Payment.MADE) from None
        return Placed(self.ticket, body.receipt, self.attester, body.replay)

    def check(self, receipt: AgentTradeReceipt, *, replay: bool) -> None:
        ticket = self.ticket
        compared = {
            "simulated": (receipt.simulated, False),
            "marketId": (receipt.market_id, ticket.market_id),
            "side": (receipt.side, ticket.side),
            "sizeUsd": (receipt.size_usd, ticket.size_usd),
            "intentHash": (receipt.intent_hash, receipt.trade_id),
        }
        is_ours = receipt.trade_id == ticket.trade_id
        if not is_ours and not replay:  # a replay may be of the same key with other limits: it is this key's one bet
            raise ReceiptWrong(f"The receipt is of trade {receipt.trade_id}, and the bet is {ticket.trade_id}.")
        if is_ours and receipt.position.shares < ticket.min_shares_out:
            raise ReceiptWrong(
                f"It has {receipt.position.shares} shares, and at least {ticket.min_shares_out} were due."
            )
        for name, (given, ours) in compared.items():
            if given != ours:
                raise ReceiptWrong(f"The receipt's {name} is {given}, and the bet's {ours}.")

    def check_signature(self, body: AgentTradeAnswer) -> None:
        if self.attester is None:
            return
        statement: Any = body.extensions
        for name in ("offer-receipt", "info", "receipt"):
            statement = statement.get(name) if isinstance(statement, dict) else None
        if not isinstance(statement, dict):
            raise ReceiptWrong("The receipt is not signed.")
        payload, signature = statement.get("payload"), str(statement.get("signature", ""))
        if not isinstance(payload, dict):
            raise ReceiptWrong("The receipt is not signed.")
        try:
            digest = bound.digest_of(bound.signed_receipt(payload))
            signer = bound.signer_of(digest, bytes.fromhex(signature.removeprefix("0x")))
        except Exception as error:  # a hostile document can make the encoder raise anything
            raise ReceiptWrong(f"The receipt's signature cannot be read: {error}") from None
        said = (
            str(payload.get("transaction")),
            str(payload.get("payer")).lower(),
            str(payload.get("resourceUrl")).rpartition("#")[2],
        )
        if said != (body.receipt.tx_hash, self.ticket.wallet.lower(), body.receipt.trade_id):
            raise ReceiptWrong("The signed receipt is of another trade.")
        if signer is None or signer.lower() != self.attester.lower():
            raise ReceiptWrong(f"The receipt is signed by {signer}, and not by {self.attester}.")

    def made_final(self, placed: Placed, ends: float) -> Steps[AgentTradeProofAnswer | None]:
        """The proof once its block is final; None when the stake is not where the receipt says any more."""
        why = "there was no time to ask"
        while (left := ends - time.monotonic()) > 0:
            try:
                proof = yield from asked(calls.proof(placed.receipt.trade_id), Patience(left))
            except VpmError as error:
                if isinstance(error, ApiError) and error.code == "not_found":
                    return None
                if isinstance(error, ApiError) and not error.code:  # of something before the API: it is asked again
                    why = str(error)
                    yield Pause(FINAL_PAUSE_SECONDS)
                    continue
                raise self.not_final(placed, str(error)) from None
            if proof.settlement.tx_hash != placed.receipt.tx_hash:
                return None
            if proof.settlement.status == "final":
                self.check_proof(proof)
                return proof
            why = f"its block is {proof.settlement.status}"
            yield Pause(FINAL_PAUSE_SECONDS)
        raise self.not_final(placed, why)

    def check_proof(self, proof: AgentTradeProofAnswer) -> None:
        ticket = self.ticket
        given = (proof.market.id, proof.position.side, proof.position.size_usd, proof.position.wallet_address.lower())
        if given != (ticket.market_id, ticket.side, ticket.size_usd, ticket.wallet.lower()):
            raise self.with_payment(ReceiptWrong("The proof is of another bet."), Payment.MADE)

    def not_final(self, placed: Placed, why: str) -> VpmError:
        error = NotFinal(f"The stake is on the chain and not final: {why}.")
        error.placed = placed
        return self.with_payment(error, Payment.MADE)

    # ------------------------------------------------------------ what is known of the payment

    def at_worst(self) -> Payment:
        """Return the payment's state after a final refusal. An earlier call that got no answer may still be at work
        until the payment expires."""
        payment = self.ticket.payment
        if payment is None:
            return Payment.NONE
        return Payment.UNKNOWN if self.in_the_dark and time.time() < payment.valid_before else Payment.REFUSED

    def refused(self, error: ApiError) -> Payment:
        """Return what a refusal says about the payment. `payment_invalid` is about one that is over, either way."""
        if error.money_moved:
            return Payment.MADE
        if self.ticket.payment is None:
            return Payment.NONE
        if not error.is_final or (self.sent > 1 and error.code in KNOWS_NO_BETS):
            return Payment.UNKNOWN
        return self.at_worst() if error.money_moved is None else Payment.REFUSED

    def with_payment(self, error: VpmError, payment: Payment) -> VpmError:
        is_made = payment is Payment.NONE and self.ticket.was_made
        error.payment, error.ticket = Payment.MADE if is_made else payment, self.ticket
        error.signed_until = None if self.ticket.payment is None else self.ticket.payment.valid_before
        return error

    def out_of_time(self, why: str, tx_hash: str | None) -> VpmError:
        if self.ticket.payment is None:
            return self.with_payment(Unreachable(f"The bet could not be offered: {why}"), Payment.NONE)
        error = OutcomeUnknown(f"The bet was paid for and its outcome is not known: {why}")
        error.tx_hash = tx_hash
        return self.with_payment(error, Payment.UNKNOWN)
