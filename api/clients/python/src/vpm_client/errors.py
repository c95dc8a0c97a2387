"""The library's exceptions. Each says whether money may have moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec


class Payment(Enum):
    """The state of the payment when an error is raised."""

    NONE = "none"
    """Nothing was signed, and no earlier call with the same key is known to have made the bet."""
    REFUSED = "refused"
    """The service refused the signed payment, and no money moved. Until `signed_until`, a holder of the signature can
    still send it to the contract, for this bet only and at most once."""
    UNKNOWN = "unknown"
    """The payment was sent, now or by an earlier call, and its outcome is unknown. Continue with `place(error.ticket)`;
    if there is no ticket, call `bet` again with the same key."""
    MADE = "made"
    """The stake is on the chain, or the money arrived and will be booked or refunded."""


class VpmError(Exception):
    """The base of the library's exceptions. `ticket`: the bet's ticket, if there is one."""

    payment: Payment = Payment.NONE
    ticket: Any = None
    signed_until: int | None = None

    @property
    def may_have_paid(self) -> bool:
        return self.payment in (Payment.UNKNOWN, Payment.MADE)


class Unreachable(VpmError):
    """A call that pays nothing got no response in time."""


class UnexpectedAnswer(VpmError):
    """A response does not match the API's documentation."""


class WrongVersion(VpmError):
    """This library does not support the API's version."""


class Untrusted(VpmError):
    """A payment challenge is not for this bet, so it was not signed."""


class PaymentRefused(VpmError):
    """The service refused a payment, with a reason."""


class OutcomeUnknown(VpmError):
    """A payment was sent, and the bet's outcome is unknown. `place(error.ticket)` tries again with the same key and
    payment, so it makes no second bet."""

    payment = Payment.UNKNOWN
    tx_hash: str | None = None


class NotFinal(VpmError):
    """A stake's block is not final yet. `placed` has the receipt."""

    payment = Payment.MADE
    placed: Any = None


class ReceiptWrong(VpmError):
    """A receipt is for another bet or is not signed by the service's key."""

    payment = Payment.MADE


class WebhookRefused(VpmError):
    """A delivery is forged, too old or already received."""


@dataclass(frozen=True, slots=True)
class Issue:
    field: str
    problem: str


class ApiError(VpmError):
    """The API refused a request: branch on `code`. The code is "" if the response did not come from the API but, for
    example, from a proxy."""

    def __init__(self, status: int, headers: Mapping[str, str], answer: bytes) -> None:
        body = _refusal(answer) or {"message": f"The response with status {status} did not come from the API."}
        self.status = status
        self.code: str = body.get("error", "")
        self.message = str(body.get("message", ""))
        self.hint: str | None = body.get("hint")
        self.docs_url: str | None = body.get("docsUrl")
        # A request that got a 408 was not processed, so it can be retried even if its code usually is final.
        self.retriable = status == 408 or bool(body.get("retriable", status == 429 or status >= 500))
        self.request_id: str | None = body.get("requestId") or headers.get("x-request-id")
        self.tx_hash: str | None = body.get("txHash")
        self.trade_id: str | None = body.get("tradeId")
        self.money_moved: bool | None = body.get("moneyMoved")
        self.is_final: bool = body.get("final") is not False
        self.issues = tuple(_issues(body.get("issues")))
        self.body = body
        self.retry_after = _seconds(headers.get("retry-after"))
        super().__init__(f"{self.code}: {self.message}" + (f" {self.hint}" if self.hint else ""))

    @property
    def field(self) -> str | None:
        return self.issues[0].field if self.issues else None


def _refusal(answer: bytes) -> dict[str, Any] | None:
    """Return the body if it is a refusal by the API, which has a code and `retriable`."""
    try:
        body = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    is_refusal = (
        isinstance(body, dict) and isinstance(body.get("error"), str) and isinstance(body.get("retriable"), bool)
    )
    return body if is_refusal else None


def _issues(given: Any) -> list[Issue]:
    listed = given if isinstance(given, list) else []
    return [Issue(str(each.get("field")), str(each.get("problem"))) for each in listed if isinstance(each, dict)]


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdecimal() else None
