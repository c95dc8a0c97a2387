"""Payments: x402 in HTTP messages, the rules by which an authorization pays for a bet, and the call that collects it.

Version 1 is a JSON body and the header `X-PAYMENT`; version 2 uses headers only. A payment's version is its
`x402Version`, no matter which header holds it. Schemas and codecs are those of the x402 package, but this module reads
an authorization's fields itself, so that errors name the field.

Stock clients sign `TransferWithAuthorization`, which anyone may send to the token. Our clients sign
`ReceiveWithAuthorization`, which only the settlement wallet can collect, and only for the bet that the nonce names. A
nonce of this second form begins with a fixed mark of eight bytes.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson
from pydantic import ValidationError
from x402.http.constants import (
    PAYMENT_REQUIRED_HEADER,
    PAYMENT_RESPONSE_HEADER,
    PAYMENT_SIGNATURE_HEADER,
    X_PAYMENT_HEADER,
)
from x402.http.utils import encode_payment_required_header, encode_payment_response_header
from x402.mechanisms.evm.constants import SCHEME_EXACT
from x402.schemas import PaymentPayload, PaymentRequired, PaymentRequirements, ResourceInfo, SettleResponse
from x402.schemas.v1 import PaymentPayloadV1, PaymentRequiredV1, PaymentRequirementsV1

from api.agent.chain import AgentContracts
from api.payments.authorization import Authorization, SignedCall
from api.problems import Problem
from api.requests import reject_duplicate_fields
from core.agent.bet import BOUND_ONLY, ZERO_ADDRESS, Bet, bound_nonce, is_marked
from core.chain import checksum
from core.contracts.statuses import Form
from core.eip3009 import RECEIVE, TRANSFER
from core.hexadecimal import bytes_of, hex_of
from core.signatures import with_usual_v

PAYMENT_HEADERS: Final = (PAYMENT_SIGNATURE_HEADER, X_PAYMENT_HEADER)
REQUIRED_HEADER: Final = PAYMENT_REQUIRED_HEADER
SETTLED_HEADER: Final = PAYMENT_RESPONSE_HEADER
SETTLED_HEADER_V1: Final = "X-Payment-Response"  # the spelling of our specification
NETWORK_V1: Final = "base"
MIME_TYPE: Final = "application/json"
SERVICE_NAME: Final = "VPM agent markets"
TAGS: Final = ["prediction-markets", "betting", "base", "usdc"]
# Clients of version 2 echo the whole offer with its extensions.
MAX_PAYMENT_CHARACTERS: Final = 32 * 1024
# The size that proxies and clients accept for one header.
MAX_REQUIRED_CHARACTERS: Final = 4 * 1024
MAX_DESCRIPTION_CHARACTERS: Final = 300  # in the header

TIMEOUT_SECONDS = 120
# Payers' clocks differ from ours; a window longer than this was not made for this challenge.
CLOCK_SLACK_SECONDS = 60
# An authorization that ends sooner could expire while its transaction waits for a block.
MIN_LEFT_SECONDS = 6

PRIMARY_TYPES = {Form.TRANSFER: TRANSFER, Form.RECEIVE: RECEIVE}

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_HASH = re.compile(r"0x[0-9a-fA-F]{64}")
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2}){64,4096}")
_DIGITS = re.compile(r"[0-9]{1,78}")
_Envelope = TypeVar("_Envelope", PaymentPayload, PaymentPayloadV1)


class PaymentRejected(Exception):
    """The payment does not pay for this trade. The message becomes the next challenge's `error`."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The payment that a 402 asks for. `amount`: token units. `seconds`: how long the payment may be valid. `body`: an
    example of the request."""

    contracts: AgentContracts
    resource: str
    description: str
    amount: int
    seconds: int
    bet_hash: bytes
    body: dict[str, Any]

    def challenge(self, error: str | None, extensions: dict[str, Any]) -> dict[str, Any]:
        """Return the 402's body in version 1. `error`: why the previous payment was not accepted."""
        accepted = PaymentRequirementsV1(
            scheme=SCHEME_EXACT,
            network=NETWORK_V1,
            max_amount_required=str(self.amount),
            resource=self.resource,
            description=self.description,
            mime_type=MIME_TYPE,
            pay_to=self.contracts.pay_to,
            max_timeout_seconds=self.seconds,
            asset=self.contracts.token_facts.address,
            extra=self._extra(),
        )
        challenge = PaymentRequiredV1(accepts=[accepted]).model_dump(by_alias=True, exclude_none=True)
        # `error` may be null; other absent fields are left out.
        body = {"x402Version": challenge["x402Version"], "error": error, "accepts": challenge["accepts"]}
        return body | ({"extensions": extensions} if extensions else {})

    def required(self, error: str | None, extensions: dict[str, Any]) -> str:
        """Return the 402's header in version 2, including an example call for directories if the header has room for
        it."""
        signed = {name: {**each, "schema": _OFFERS_SCHEMA} for name, each in extensions.items()}
        call = {"type": "http", "method": "POST", "bodyType": "json", "body": self.body}
        full = self._required(error, {**signed, "bazaar": {"info": {"input": call}, "schema": _CALL_SCHEMA}})
        return full if len(full) <= MAX_REQUIRED_CHARACTERS else self._required(error, signed)

    def _required(self, error: str | None, extensions: dict[str, Any]) -> str:
        accepted = PaymentRequirements(
            scheme=SCHEME_EXACT,
            network=self.contracts.network,
            asset=self.contracts.token_facts.address,
            amount=str(self.amount),
            pay_to=self.contracts.pay_to,
            max_timeout_seconds=self.seconds,
            extra=self._extra(),
        )
        resource = ResourceInfo(
            url=self.resource,
            description=self.description[:MAX_DESCRIPTION_CHARACTERS],
            mime_type=MIME_TYPE,
            service_name=SERVICE_NAME,
            tags=TAGS,
        )
        return encode_payment_required_header(
            PaymentRequired(
                error=error or "Payment required.",
                resource=resource,
                accepts=[accepted],
                extensions=extensions or None,
            )
        )

    def _extra(self) -> dict[str, str]:
        token = self.contracts.token_facts
        return {
            "name": token.domain_name,
            "version": token.domain_version,
            "intentNonce": hex_of(self.bet_hash),
            "intentValidAfter": str(BOUND_ONLY),
            "receiveNonce": hex_of(bound_nonce(self.bet_hash)),
            "receivePrimaryType": PRIMARY_TYPES[Form.RECEIVE],
        }


def decode(header: str, contracts: AgentContracts) -> Authorization:
    """Return the authorization in a payment header. If the header is invalid, raise PaymentRejected with a message that
    names the fault."""
    if len(header) > MAX_PAYMENT_CHARACTERS:
        raise PaymentRejected(f"The payment is longer than {MAX_PAYMENT_CHARACTERS} characters.")
    try:
        raw = base64.b64decode(header.strip(), validate=True)
        envelope = orjson.loads(raw)
    except (binascii.Error, ValueError):
        raise PaymentRejected("The payment is not a base64-encoded JSON envelope.") from None
    try:
        reject_duplicate_fields(raw)
    except Problem as twice:
        raise PaymentRejected(twice.message.replace("The body", "The payment")) from None
    if not isinstance(envelope, dict):
        raise PaymentRejected("The payment is not a JSON object.")
    version = str(envelope.get("x402Version"))
    if version not in ("1", "2"):
        raise PaymentRejected("x402Version must be 1 or 2.")
    # Clients may echo these from the offer; they are not validated.
    terms = {name: value for name, value in envelope.items() if name not in ("extensions", "resource")}
    payload, amount = _read_v1(terms) if version == "1" else _read_v2(terms, contracts)
    authorization = payload.get("authorization")
    if not isinstance(authorization, dict):
        raise PaymentRejected("payload must hold signature and authorization.")
    payment = Authorization(
        payer=_text(authorization, "from", _ADDRESS).lower(),
        to=_text(authorization, "to", _ADDRESS).lower(),
        value=_number(authorization, "value"),
        valid_after=_number(authorization, "validAfter"),
        valid_before=_number(authorization, "validBefore"),
        nonce=bytes_of(_text(authorization, "nonce", _HASH)),
        signature=with_usual_v(bytes_of(_text(payload, "signature", _HEX))),
    )
    if amount is not None and str(payment.value) != amount:
        raise PaymentRejected("authorization.value is not accepted.amount.")
    return payment


def settled_headers(transaction: str, payer: str, network: str, extensions: dict[str, Any]) -> dict[str, str]:
    """Build a 200's settlement headers. `network`: the chain's CAIP-2 name."""

    def summary(on: str) -> str:
        return encode_payment_response_header(
            SettleResponse(
                success=True, transaction=transaction, network=on, payer=payer, extensions=extensions or None
            )
        )

    return {SETTLED_HEADER_V1: summary(NETWORK_V1), SETTLED_HEADER: summary(network)}


def _read_v1(envelope: dict[str, Any]) -> tuple[dict[str, Any], None]:
    parsed = _parse(PaymentPayloadV1, {**envelope, "x402Version": 1})
    _check_equal("scheme", parsed.scheme, SCHEME_EXACT)
    _check_equal("network", parsed.network, NETWORK_V1)
    return parsed.payload, None


def _read_v2(envelope: dict[str, Any], contracts: AgentContracts) -> tuple[dict[str, Any], str]:
    """Return the payload and, from the terms that the payer accepted, the amount."""
    parsed = _parse(PaymentPayload, {**envelope, "x402Version": 2})
    terms = parsed.accepted
    _check_equal("accepted.scheme", terms.scheme, SCHEME_EXACT)
    _check_equal("accepted.network", terms.network, contracts.network)
    _check_equal("accepted.asset", terms.asset.lower(), contracts.token_facts.address.lower())
    _check_equal("accepted.payTo", terms.pay_to.lower(), contracts.pay_to.lower())
    return parsed.payload, terms.amount


def _parse(model: type[_Envelope], envelope: dict[str, Any]) -> _Envelope:
    try:
        return model.model_validate(envelope)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PaymentRejected(f"{where} is missing or malformed.") from None


def _check_equal(name: str, value: str, expected: str) -> None:
    if value != expected:
        raise PaymentRejected(f"{name} must be {expected}.")


def _text(holder: dict[str, Any], name: str, form: re.Pattern[str]) -> str:
    value = holder.get(name)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise PaymentRejected(f"{name} is missing or malformed.")
    return value


def _number(holder: dict[str, Any], name: str) -> int:
    value = holder.get(name)
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**256:
        raise PaymentRejected(f"{name} is not a whole number.")
    return value


def _schema(**fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


_TEXT: Final = {"type": "string"}
_BODY_SCHEMA: Final = _schema(
    marketId=_TEXT, side=_TEXT, sizeUsd={"type": "number", "minimum": 1}, walletAddress=_TEXT, idemKey=_TEXT
)
_CALL_SCHEMA: Final = _schema(
    input=_schema(type={"const": "http"}, method={"const": "POST"}, bodyType={"const": "json"}, body=_BODY_SCHEMA)
)
_OFFERS_SCHEMA: Final = _schema(
    offers={"type": "array", "items": {"type": "object", "required": ["format", "signature"]}}
)


# ---------------------------------------------------------------- what pays for a bet


def form_of(payment: Authorization) -> Form:
    return Form.RECEIVE if is_marked(payment.nonce) else Form.TRANSFER


def is_bound_to(payment: Authorization, bet_hash: bytes) -> bool:
    """Return whether the contract accepts the payment only for this bet, no matter who sends it."""
    return payment.nonce == (bound_nonce(bet_hash) if form_of(payment) is Form.RECEIVE else bet_hash)


def seconds_to_pay(now: int, closes_at: int) -> int:
    """Return the longest validity, in seconds, of a payment signed now. The validity ends no later than betting."""
    return max(0, min(TIMEOUT_SECONDS, closes_at - now))


def check_parties(payment: Authorization, *, wallet: str, pay_to: str) -> None:
    """Raise PaymentRejected unless the payment is from this wallet to `pay_to`."""
    if payment.payer != wallet.lower():
        raise PaymentRejected("authorization.from is not walletAddress.")
    if payment.to != pay_to.lower():
        raise PaymentRejected("authorization.to is not the offer's payTo.")


def window_fault(payment: Authorization, *, head_time: int, now: int, closes_at: int) -> str | None:
    """Return why the payment is not valid now, or None if it is. `head_time`: the time of the newest block, in which
    the payment is simulated. Do not call this for a used authorization: its payment is booked no matter when the payer
    returns."""
    seconds = seconds_to_pay(now, closes_at)
    if payment.valid_after >= head_time:
        return "authorization.validAfter is in the future."
    if payment.valid_before < now + min(MIN_LEFT_SECONDS, seconds):
        return "authorization.validBefore has passed or is about to."
    if payment.valid_before > now + seconds + CLOCK_SLACK_SECONDS:
        return f"authorization.validBefore is more than {seconds} seconds ahead."
    return None


def mismatch(payment: Authorization, amount: int, bet_hash: bytes) -> str | None:
    """Return why the payment is not for this amount and bet, or None. The contract refuses such payments, too."""
    if payment.value != amount:
        return "authorization.value is not the offer's amount."
    if is_bound_to(payment, bet_hash):
        return None
    if form_of(payment) is Form.RECEIVE:
        return "authorization.nonce has the mark of bound payments and belongs to another bet, not extra.receiveNonce."
    if payment.valid_after == BOUND_ONLY:
        return f"authorization.validAfter {BOUND_ONLY} binds it to another bet: its nonce is not extra.intentNonce."
    return None


def wrong_form(form: Form) -> str:
    """Return why a signature in the other form is wrong. `form`: the form that the nonce implies."""
    if form is Form.RECEIVE:
        return "The nonce has the mark of bound payments: sign ReceiveWithAuthorization, not TransferWithAuthorization."
    return "Sign TransferWithAuthorization with this nonce; ReceiveWithAuthorization needs extra.receiveNonce as nonce."


def settle_call(contracts: AgentContracts, bet: Bet, payment: Authorization) -> SignedCall:
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
