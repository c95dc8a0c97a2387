"""The two versions of x402 in HTTP messages: the challenge of a 402, the payment that answers the challenge, and the
settlement headers.

Version 1 is a JSON body and the header `X-PAYMENT`; version 2 uses headers only. A payment's version is its
`x402Version`, no matter which header holds the payment. Schemas and codecs are those of the x402 package. This module
reads the fields of an authorization itself, so that errors name the field. Pure.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
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
from api.agent.trade.payment import PRIMARY_TYPES, PaymentRejected
from api.payments.authorization import Authorization
from api.problems import Problem
from api.requests import reject_duplicate_fields
from core.agent.bet import BOUND_ONLY, bound_nonce
from core.contracts.deployments import Token
from core.contracts.statuses import Form
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

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_HASH = re.compile(r"0x[0-9a-fA-F]{64}")
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2}){64,4096}")
_DIGITS = re.compile(r"[0-9]{1,78}")
_Envelope = TypeVar("_Envelope", PaymentPayload, PaymentPayloadV1)


class PaymentsDiffer(Exception):
    """The refusal of a request that holds two different payments."""


@dataclass(frozen=True, slots=True)
class Seller:
    """The receiving side of a payment: address, token and chain."""

    pay_to: str
    token: Token
    chain_id: int

    @classmethod
    def of(cls, contracts: AgentContracts) -> Seller:
        return cls(contracts.settlement.address, contracts.token_facts, contracts.chain_id)

    @property
    def network(self) -> str:
        """Return the CAIP-2 name of the chain, which version 2 uses."""
        return f"eip155:{self.chain_id}"


@dataclass(frozen=True, slots=True)
class Offer:
    """The payment that a 402 asks for. `amount`: the amount in token units. `seconds`: how long the payment may be
    valid. `resource`: the URL of the trade, with the trade's hash. `body`: the request that the 402 answers."""

    seller: Seller
    resource: str
    description: str
    amount: int
    seconds: int
    bet_hash: bytes
    body: dict[str, Any]

    def challenge(self, error: str | None, extensions: dict[str, Any]) -> dict[str, Any]:
        """Return the body of the 402 in version 1. `error`: why the previous payment was not accepted."""
        accepted = PaymentRequirementsV1(
            scheme=SCHEME_EXACT,
            network=NETWORK_V1,
            max_amount_required=str(self.amount),
            resource=self.resource,
            description=self.description,
            mime_type=MIME_TYPE,
            pay_to=self.seller.pay_to,
            max_timeout_seconds=self.seconds,
            asset=self.seller.token.address,
            extra=self._extra(),
        )
        challenge = PaymentRequiredV1(accepts=[accepted]).model_dump(by_alias=True, exclude_none=True)
        # `error` may be null; other absent fields are left out.
        body = {"x402Version": challenge["x402Version"], "error": error, "accepts": challenge["accepts"]}
        return body | ({"extensions": extensions} if extensions else {})

    def required(self, error: str | None, extensions: dict[str, Any]) -> str:
        """Return the header of the 402 in version 2. It has an example call for directories if there is room."""
        signed = {name: {**extension, "schema": _OFFERS_SCHEMA} for name, extension in extensions.items()}
        full = self._required(error, {**signed, "bazaar": {"info": self._input(), "schema": _INPUT_SCHEMA}})
        return full if len(full) <= MAX_REQUIRED_CHARACTERS else self._required(error, signed)

    def _required(self, error: str | None, extensions: dict[str, Any]) -> str:
        accepted = PaymentRequirements(
            scheme=SCHEME_EXACT,
            network=self.seller.network,
            asset=self.seller.token.address,
            amount=str(self.amount),
            pay_to=self.seller.pay_to,
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
        token = self.seller.token
        return {
            "name": token.domain_name,
            "version": token.domain_version,
            "intentNonce": hex_of(self.bet_hash),
            "intentValidAfter": str(BOUND_ONLY),
            "receiveNonce": hex_of(bound_nonce(self.bet_hash)),
            "receivePrimaryType": PRIMARY_TYPES[Form.RECEIVE],
        }

    def _input(self) -> dict[str, Any]:
        return {"input": {"type": "http", "method": "POST", "bodyType": "json", "body": self.body}}


def read_payment(headers: Iterable[str], seller: Seller) -> Authorization | None:
    """Return the payment in these header values, or None if there is none. Raise PaymentRejected for a bad payment and
    PaymentsDiffer for two different ones."""
    payments = {decode(header, seller) for header in headers}
    if len(payments) > 1:
        raise PaymentsDiffer
    return payments.pop() if payments else None


def decode(header: str, seller: Seller) -> Authorization:
    """Return the authorization in a header. If the header is bad, raise PaymentRejected, which names the fault."""
    if len(header) > MAX_PAYMENT_CHARACTERS:
        raise PaymentRejected(f"The payment is longer than {MAX_PAYMENT_CHARACTERS} characters.")
    try:
        raw = base64.b64decode(header.strip(), validate=True)
        envelope = orjson.loads(raw)
    except (binascii.Error, ValueError):
        raise PaymentRejected("The payment is not the base64 of a JSON envelope.") from None
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
    payload, amount = _read_v1(terms) if version == "1" else _read_v2(terms, seller)
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
    """Build the settlement headers of a 200, in both versions. `network`: the CAIP-2 name of the chain."""

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


def _read_v2(envelope: dict[str, Any], seller: Seller) -> tuple[dict[str, Any], str]:
    """Return the payload of a payment in version 2, and the amount in the terms that the payer accepted."""
    parsed = _parse(PaymentPayload, {**envelope, "x402Version": 2})
    terms = parsed.accepted
    _check_equal("accepted.scheme", terms.scheme, SCHEME_EXACT)
    _check_equal("accepted.network", terms.network, seller.network)
    _check_equal("accepted.asset", terms.asset.lower(), seller.token.address.lower())
    _check_equal("accepted.payTo", terms.pay_to.lower(), seller.pay_to.lower())
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


_OFFERS_SCHEMA: Final = {
    "type": "object",
    "properties": {"offers": {"type": "array", "items": {"type": "object", "required": ["format", "signature"]}}},
    "required": ["offers"],
}
_INPUT_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "input": {
            "type": "object",
            "properties": {
                "type": {"const": "http"},
                "method": {"const": "POST"},
                "bodyType": {"const": "json"},
                "body": {
                    "type": "object",
                    "properties": {
                        "marketId": {"type": "string"},
                        "side": {"type": "string"},
                        "sizeUsd": {"type": "number", "minimum": 1},
                        "walletAddress": {"type": "string"},
                        "idemKey": {"type": "string"},
                    },
                    "required": ["marketId", "side", "sizeUsd", "walletAddress", "idemKey"],
                },
            },
            "required": ["type", "method", "bodyType", "body"],
        }
    },
    "required": ["input"],
}
