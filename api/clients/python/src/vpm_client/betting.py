"""One bet, exactly once: get a quote, sign a bound payment, trade, retry until the outcome is known, verify the receipt
and wait until the block is final.

Two fixed values make a bet happen at most once. The idempotency key is chosen before anything is sent, and the contract
accepts a wallet's key only once. The payment's nonce is the bet's hash, and the token accepts a nonce only once. If a
request or a response is lost, the same request is sent again. No second key is ever created.
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

from vpm_client import operations, typed_data
from vpm_client.call import PREFIX, Amount, Call, Lost, Reply, decimal, decode, decoder, json_body, to_json, units
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
from vpm_client.steps import Backoff, Keep, Pause, Settings, Sign, Steps, send, send_with_retries

SIMPLE_MAX_USD = 10
TRADE_SECONDS = 45.0
"""Longer than the service waits for the chain, so that a retry does not overlap with the first request."""
ABOUT_TO_END_SECONDS = 15
MAX_VALIDITY_SECONDS = 600
MAX_QUOTES = 5
FINAL_PAUSE_SECONDS = 1.0
BET_NOT_READ = ("platform_disabled", "not_found", "method_not_allowed", "payload_too_large", "unsupported_media_type")
"""Refusals made without reading the bet."""
BET_NOT_LOOKED_UP = (*BET_NOT_READ, "invalid_request", "invalid_wallet")
"""Refusals made before the service checks whether the bet is on the chain."""


class SignedPayment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A signed payment for one bet. `header`: the value of `X-PAYMENT`."""

    header: str
    valid_before: int


class Ticket(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A bet with everything needed to continue it, even in another process. Save it with `to_json`, load it with
    `Ticket.from_json` and continue with `place`.

    A ticket with a payment lets its holder place that one bet and nothing else. `was_made`: whether the bet was already
    on the chain when the ticket was prepared.
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
        return typed_data.bet_hash(
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
    """A bet that is on the chain. `attester`: the address that signed the receipt, or None if the service does not
    sign. `replay`: whether an earlier call had settled the bet. `proof` is None until the bet's block is final."""

    ticket: Ticket
    receipt: AgentTradeReceipt
    attester: str | None
    replay: bool
    proof: AgentTradeProofAnswer | None = None

    @property
    def is_final(self) -> bool:
        return self.proof is not None


KeepTicket = Callable[[Ticket], object]
"""A function to which every changed ticket is passed. For AsyncClient, it may be asynchronous."""


# ---------------------------------------------------------------- from a request to a ticket


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
    """Make one bet, exactly once, and verify its receipt. If `final`, also wait until the bet's block is final.

    `min_shares`: the fewest shares to accept, by default 1% fewer than quoted. `keep` is called with every changed
    ticket before the ticket is used: a saved ticket survives a crash, and `place` continues it. A cancelled AsyncClient
    call may have paid, so continue with the saved ticket. With your own `idem_key`, a second call with the same bet
    returns the outcome of the first one, even if the market has closed. If the service does not know that outcome, the
    error's `payment` is `UNKNOWN`.
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
    """Return a bet's ticket without signing or paying. The terms come from a quote, which is locked for bets above 10
    USD, or from an earlier bet with the caller's `idem_key`."""
    backoff = Backoff(settings.patience_seconds)
    wallet, size = settings.address, decimal(size_usd)
    before: AgentTradeReceipt | None = None
    if idem_key is not None:
        same = {"marketId": market, "side": side, "sizeUsd": size, "idemKey": idem_key, "walletAddress": wallet}
        more = {"builderCode": builder_code, "callbackUrl": callback_url, "ref": ref}
        before = yield from find_earlier_bet(trade_call({**same, **more}), backoff)
    try:
        listed = (yield from send_with_retries(operations.market(market), backoff)).market
        if before is None:
            call = operations.quote(listed.id, side=side, size_usd=size, wallet=wallet)
            quote = (yield from send_with_retries(call, backoff)).quote
            taken, least, quote_id = quote.side, quote.suggested_min_shares_out, quote.quote_id
        else:
            taken, least, quote_id = before.side, before.position.shares, None
        keys = [each.key for each in listed.outcomes or ()]
        if taken not in keys:
            raise Untrusted(f"The service names the side {taken!r}, which market {listed.id} does not have.")
        if "0x" + typed_data.market_key(listed.id).hex() != listed.settlement.market_key.lower():
            raise Untrusted(f"The contract's key for market {listed.id} is not the hash of its id.")
        contract = listed.settlement.contract
        if settings.contract is not None and contract.lower() != settings.contract.lower():
            raise Untrusted(f"The service settles through {contract}, but you require {settings.contract}.")
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


def find_earlier_bet(unpaid: Call[AgentTradeAnswer], backoff: Backoff) -> Steps[AgentTradeReceipt | None]:
    """Return the receipt of an earlier bet with the caller's key, or None if there was none. Raise an error if it is
    not certain whether there was one, because a new bet might then be a second one."""
    while True:
        response = yield from send(unpaid)
        try:
            if isinstance(response, Lost):
                raise Unreachable(f"The outcome of an earlier call cannot be determined: {response.why}")
            return bet_under_key(response)
        except VpmError as wrong:
            error = wrong
        refused = error if isinstance(error, ApiError) else None
        may_pass = isinstance(response, Lost) or (refused is not None and refused.retriable and refused.is_final)
        pause = backoff.next(None if refused is None else refused.retry_after) if may_pass else None
        if pause is None:
            error.payment = Payment.MADE if refused is not None and refused.money_moved else Payment.UNKNOWN
            raise error
        yield Pause(pause)


def bet_under_key(reply: Reply) -> AgentTradeReceipt | None:
    """Return the receipt in the reply to an unpaid call, or None if there is no bet with this key. Raise an error if
    the reply proves neither: a proxy's 200 or 402 says nothing about the bet."""
    if reply.status == 200:
        return decode(AgentTradeAnswer, reply.body).receipt
    if reply.status == 402:
        if not decode(AgentChallenge, reply.body).accepts:
            raise UnexpectedAnswer("The challenge offers no way to pay.")
        return None
    error = ApiError(reply.status, reply.headers, reply.body)
    if not shows_no_bet(error):
        raise error
    return None


def shows_no_bet(error: ApiError) -> bool:
    """Return whether a refusal proves that there is no bet with this key. It does if the same bet is in flight under
    another key, or if the service read the bet and refused it for good."""
    is_for_good = bool(error.code) and error.code not in BET_NOT_READ and not error.retriable and error.is_final
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
    """Continue a ticket, new or saved, until its stake is on the chain or, with `final`, in a final block. However
    often this is called, it makes only one bet."""
    bet_in_progress = _Bet(ticket, settings, keep)
    placed = yield from bet_in_progress.submit()
    ends = time.monotonic() + settings.final_seconds
    while final:
        proof = yield from bet_in_progress.wait_until_final(placed, ends)
        if proof is not None:
            return replace(placed, proof=proof)
        # A reorganization removed its block: the same request places the stake again or returns its new block.
        yield Pause(FINAL_PAUSE_SECONDS)
        placed = yield from bet_in_progress.resubmit(placed)
    return placed


class _Bet:
    """The placing of one ticket."""

    def __init__(self, ticket: Ticket, settings: Settings, keep: KeepTicket | None) -> None:
        self.ticket = ticket
        self.settings = settings
        self.keep = keep
        # Whether a call with the payment may have arrived although its response was lost, even in an earlier process.
        self.may_be_in_flight = ticket.payment is not None
        # How often the payment may have been sent. A payment from an earlier process counts as sent once.
        self.sent = 0 if ticket.payment is None else 1
        self.attester = settings.attester

    def submit(self) -> Steps[Placed]:
        backoff, quotes, tx_hash = Backoff(self.settings.patience_seconds), 0, None
        why = "no response"
        while True:
            self.sent += self.ticket.payment is not None
            response = yield from send(self.trade())
            if isinstance(response, Reply) and response.status == 200:
                return (yield from self.accept_receipt(response, backoff))
            challenge = self.challenge(response)
            if challenge is not None:
                if self.ticket.payment is not None:
                    yield from self.wait(backoff, self.reason_if_expired(challenge))
                yield from self.sign_payment(challenge)
                continue
            least = None
            if isinstance(response, Lost):
                why = response.why
                self.may_be_in_flight = self.may_be_in_flight or self.ticket.payment is not None
            else:
                error = ApiError(response.status, response.headers, response.body)
                if error.code in ("quote_expired", "quote_mismatch") and quotes < MAX_QUOTES:
                    quotes += 1
                    yield from self.renew_lock(backoff, error)
                    continue
                if not error.code and self.ticket.payment is not None:
                    # The response is from a proxy, which may have passed the bet on to the API.
                    self.may_be_in_flight = True
                elif self.is_settled_for_now(error) or self.is_duplicate(error):
                    raise self.with_payment(error, self.payment_state(error))
                why, least, tx_hash = str(error), error.retry_after, error.tx_hash or tx_hash
            yield from self.wait(backoff, why, least, tx_hash)

    def resubmit(self, placed: Placed) -> Steps[Placed]:
        """Send the bet again after its block was removed from the chain. If sending fails, the bet counts as made but
        not final, unless the service refuses it for good."""
        try:
            return (yield from self.submit())
        except VpmError as error:
            if error.payment is Payment.REFUSED:
                raise
            raise self.not_final(placed, str(error)) from error

    def is_settled_for_now(self, error: ApiError) -> bool:
        """Return whether retrying now is pointless. Either the bet must change, or it was refused in a block, and the
        chain may need many minutes to undo that block."""
        return not error.retriable or (not error.is_final and error.status < 429)

    def is_duplicate(self, error: ApiError) -> bool:
        """Return whether the same bet of this wallet is in flight under another key. If retries went on until that bet
        was settled, they would place a second bet. Only the caller may decide to do that."""
        return error.code == "rate_limited" and error.trade_id not in (None, self.ticket.trade_id)

    def wait(self, backoff: Backoff, why: str, least: float | None = None, tx_hash: str | None = None) -> Steps[None]:
        pause = backoff.next(least)
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

    def challenge(self, response: Reply | Lost) -> AgentChallenge | None:
        """Return the payment challenge in a response, or None. After a payment was sent, only a challenge for this bet
        counts; any other challenge did not come from the API."""
        if isinstance(response, Lost) or response.status != 402:
            return None
        try:
            challenge = decode(AgentChallenge, response.body)
            if self.ticket.payment is not None:
                self.check_challenge(challenge)
        except VpmError:
            return None
        return challenge

    def reason_if_expired(self, challenge: AgentChallenge) -> str:
        """Return the service's reason for asking for another payment, if this payment has expired. Raise PaymentRefused
        if it is still valid, because the service has then refused it."""
        why = challenge.error or "The payment was not accepted."
        payment = self.ticket.payment
        if payment is not None and time.time() < payment.valid_before - ABOUT_TO_END_SECONDS:
            raise self.with_payment(PaymentRefused(why), self.state_after_refusal())
        return why

    def sign_payment(self, challenge: AgentChallenge) -> Steps[None]:
        """Sign the payment if the challenge is for this bet. An expired payment is signed again with the same nonce.
        The token accepts a nonce only once, so it remains one payment."""
        try:
            offer = self.check_challenge(challenge)
        except Untrusted as wrong:
            raise self.with_payment(wrong, Payment.NONE) from None
        until = int(time.time()) + min(offer.max_timeout_seconds, MAX_VALIDITY_SECONDS)
        typed = typed_data.authorization(
            token=offer.asset,
            name=offer.extra.name,
            version=offer.extra.version,
            payer=self.ticket.wallet,
            to=offer.pay_to,
            value=int(offer.max_amount_required),
            until=until,
            nonce=typed_data.bound_nonce(self.ticket.hash),
        )
        signed = {
            name: "0x" + value.hex() if isinstance(value, bytes) else str(value)
            for name, value in typed.message.items()
        }
        signature: bytes = yield Sign(typed)
        payload = {"signature": "0x" + signature.hex(), "authorization": signed}
        envelope = {"x402Version": 1, "scheme": "exact", "network": "base", "payload": payload}
        header = base64.b64encode(msgspec.json.encode(envelope)).decode()
        yield from self.update_ticket(payment=SignedPayment(header=header, valid_before=until))

    def update_ticket(self, **fields: Any) -> Steps[None]:
        self.ticket = msgspec.structs.replace(self.ticket, **fields)
        if self.keep is not None:
            yield Keep(self.ticket, self.keep)

    def check_challenge(self, challenge: AgentChallenge) -> AgentPaymentOffer:
        """Return the challenge's offer. Raise Untrusted if the offer is for another amount or not bound to this bet."""
        if not challenge.accepts:
            raise Untrusted("The challenge offers no way to pay.")
        offer = challenge.accepts[0]
        compared = {
            "scheme": (offer.scheme, "exact"),
            "network": (offer.network, "base"),
            "maxAmountRequired": (offer.max_amount_required, str(units(self.ticket.size_usd))),
            "payTo": (offer.pay_to.lower(), self.ticket.contract.lower()),
            "asset": (offer.asset.lower(), (self.settings.token or offer.asset).lower()),
            "extra.receivePrimaryType": (offer.extra.receive_primary_type, typed_data.RECEIVE),
            "extra.receiveNonce": (
                offer.extra.receive_nonce.lower(),
                "0x" + typed_data.bound_nonce(self.ticket.hash).hex(),
            ),
        }
        for name, (given, ours) in compared.items():
            if given != ours:
                raise Untrusted(f"The challenge's {name} is {given}; this bet needs {ours}. Nothing was signed.")
        return offer

    def renew_lock(self, backoff: Backoff, refusal: ApiError) -> Steps[None]:
        """Get a new price lock. The bet's limits, hash and payment stay the same. `refusal`: the error that made a new
        lock necessary. If the service refuses a new lock, the raised error has the payment state that `refusal`
        implies."""
        ticket = self.ticket
        again = operations.quote(ticket.market_id, side=ticket.side, size_usd=ticket.size_usd, wallet=ticket.wallet)
        try:
            quote = (yield from send_with_retries(again, backoff)).quote
        except Unreachable as error:
            raise self.out_of_time(str(error), None) from None
        except VpmError as error:
            raise self.with_payment(error, self.payment_state(refusal)) from None
        yield from self.update_ticket(quote_id=quote.quote_id)

    # ------------------------------------------------------------ the receipt

    def accept_receipt(self, reply: Reply, backoff: Backoff) -> Steps[Placed]:
        """Check that the receipt is for this bet and signed by the service. Return the placed bet."""
        try:
            body = decode(AgentTradeAnswer, reply.body)
        except VpmError as error:
            raise self.with_payment(error, Payment.UNKNOWN if self.ticket.payment else Payment.NONE) from None
        self.may_be_in_flight = self.ticket.payment is not None  # the service accepted it
        try:
            self.check_receipt(body.receipt, replay=body.replay)
            if self.attester is None:
                self.attester = (yield from send_with_retries(operations.health(), backoff)).health.attester
            self.check_signature(body)
        except VpmError as error:
            raise self.with_payment(error, Payment.MADE) from None
        return Placed(self.ticket, body.receipt, self.attester, body.replay)

    def check_receipt(self, receipt: AgentTradeReceipt, *, replay: bool) -> None:
        ticket = self.ticket
        compared = {
            "simulated": (receipt.simulated, False),
            "marketId": (receipt.market_id, ticket.market_id),
            "side": (receipt.side, ticket.side),
            "sizeUsd": (receipt.size_usd, ticket.size_usd),
            "intentHash": (receipt.intent_hash, receipt.trade_id),
        }
        is_ours = receipt.trade_id == ticket.trade_id
        if not is_ours and not replay:  # a replay with other limits is still the key's one bet
            raise ReceiptWrong(f"The receipt is for trade {receipt.trade_id}, but the bet is {ticket.trade_id}.")
        if is_ours and receipt.position.shares < ticket.min_shares_out:
            shares = receipt.position.shares
            raise ReceiptWrong(f"The receipt has {shares} shares; at least {ticket.min_shares_out} were required.")
        for name, (given, ours) in compared.items():
            if given != ours:
                raise ReceiptWrong(f"The receipt's {name} is {given}; the bet's is {ours}.")

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
            digest = typed_data.digest_of(typed_data.signed_receipt(payload))
            signer = typed_data.signer_of(digest, bytes.fromhex(signature.removeprefix("0x")))
        except Exception as error:  # a hostile document can make the encoder raise anything
            raise ReceiptWrong(f"The receipt's signature cannot be read: {error}") from None
        said = (
            str(payload.get("transaction")),
            str(payload.get("payer")).lower(),
            str(payload.get("resourceUrl")).rpartition("#")[2],
        )
        if said != (body.receipt.tx_hash, self.ticket.wallet.lower(), body.receipt.trade_id):
            raise ReceiptWrong("The signed receipt is for another trade.")
        if signer is None or signer.lower() != self.attester.lower():
            raise ReceiptWrong(f"The receipt is signed by {signer}, not by {self.attester}.")

    def wait_until_final(self, placed: Placed, ends: float) -> Steps[AgentTradeProofAnswer | None]:
        """Return the proof as soon as the bet's block is final. Return None if the stake is no longer in the receipt's
        transaction."""
        why = "there was no time left to check"
        while (left := ends - time.monotonic()) > 0:
            try:
                proof = yield from send_with_retries(operations.proof(placed.receipt.trade_id), Backoff(left))
            except VpmError as error:
                if isinstance(error, ApiError) and error.code == "not_found":
                    return None
                if isinstance(error, ApiError) and not error.code:  # from a proxy: try again
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
            raise self.with_payment(ReceiptWrong("The proof is for another bet."), Payment.MADE)

    def not_final(self, placed: Placed, why: str) -> VpmError:
        error = NotFinal(f"The stake is on the chain but not final: {why}.")
        error.placed = placed
        return self.with_payment(error, Payment.MADE)

    # ------------------------------------------------------------ the state of the payment

    def state_after_refusal(self) -> Payment:
        """Return the payment's state after a final refusal. Until the payment expires, an earlier call that got no
        response may still succeed."""
        payment = self.ticket.payment
        if payment is None:
            return Payment.NONE
        return Payment.UNKNOWN if self.may_be_in_flight and time.time() < payment.valid_before else Payment.REFUSED

    def payment_state(self, error: ApiError) -> Payment:
        if error.money_moved:
            return Payment.MADE
        if self.ticket.payment is None:
            return Payment.NONE
        if not error.is_final or (self.sent > 1 and error.code in BET_NOT_LOOKED_UP):
            return Payment.UNKNOWN
        return self.state_after_refusal() if error.money_moved is None else Payment.REFUSED

    def with_payment(self, error: VpmError, payment: Payment) -> VpmError:
        is_made = payment is Payment.NONE and self.ticket.was_made
        error.payment, error.ticket = Payment.MADE if is_made else payment, self.ticket
        error.signed_until = None if self.ticket.payment is None else self.ticket.payment.valid_before
        return error

    def out_of_time(self, why: str, tx_hash: str | None) -> VpmError:
        if self.ticket.payment is None:
            return self.with_payment(Unreachable(f"The bet could not be placed: {why}"), Payment.NONE)
        error = OutcomeUnknown(f"The payment was sent, but the outcome is unknown: {why}")
        error.tx_hash = tx_hash
        return self.with_payment(error, Payment.UNKNOWN)
