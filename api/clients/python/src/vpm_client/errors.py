"""What can go wrong, as types. Each error says whether money may have moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec


class Payment(Enum):
    """What is known of the payment when an error is raised."""

    NONE = "none"
    """Nothing was signed, and no earlier call of the same key is known to have made the bet."""
    REFUSED = "refused"
    """It was signed and sent, and the service refused it: no money moved. Until `signed_until`, a holder of the
    signature could still send it to the contract, for this one bet and never twice."""
    UNKNOWN = "unknown"
    """It was signed and sent, now or by an earlier call, and its outcome is not known. Go on with
    `place(error.ticket)`; where there is no ticket, call `bet` again with the same key."""
    MADE = "made"
    """The stake is on the chain, or the money arrived and is booked or given back."""


class VpmError(Exception):
    """Anything this library raises. `ticket`: the bet it is about, if it is about one."""

    payment: Payment = Payment.NONE
    ticket: Any = None
    signed_until: int | None = None

    @property
    def may_have_paid(self) -> bool:
        return self.payment in (Payment.UNKNOWN, Payment.MADE)


class Unreachable(VpmError):
    """No answer in all the time there was, to a call that pays nothing."""


class UnexpectedAnswer(VpmError):
    """An answer that is not what the API documents."""


class WrongVersion(VpmError):
    """An API of another version than this library was made for."""


class Untrusted(VpmError):
    """A challenge that asks for something else than the bet; it was not signed."""


class PaymentRefused(VpmError):
    """A payment that the service did not accept, with its sentence."""


class OutcomeUnknown(VpmError):
    """A bet whose payment was sent and whose outcome did not arrive in time. `place(error.ticket)` asks again with the
    same key and the same payment, so it stays one bet."""

    payment = Payment.UNKNOWN
    tx_hash: str | None = None


class NotFinal(VpmError):
    """A stake that is on the chain in a block that is not final yet. `placed` is what is known of it."""

    payment = Payment.MADE
    placed: Any = None


class ReceiptWrong(VpmError):
    """A receipt that is not of this bet, or not signed by the service's key."""

    payment = Payment.MADE


class WebhookRefused(VpmError):
    """A delivery that is not the service's, too old, or seen before."""


@dataclass(frozen=True, slots=True)
class Issue:
    """What is wrong with one field of a request."""

    field: str
    problem: str


class ApiError(VpmError):
    """A refusal of the API: branch on its `code`. An answer that is not in the API's form did not come from it and has
    the code "": a proxy before it may well name an `error` too."""

    def __init__(self, status: int, headers: Mapping[str, str], answer: bytes) -> None:
        body = _refusal(answer) or {"message": f"The answer has status {status} and is not the API's."}
        self.status = status
        self.code: str = body.get("error", "")
        self.message = str(body.get("message", ""))
        self.hint: str | None = body.get("hint")
        self.docs_url: str | None = body.get("docsUrl")
        # A 408 is a call that did not arrive in time and was not processed: retriable, even if its code usually is not.
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
        """The first field that is wrong, where the API names one."""
        return self.issues[0].field if self.issues else None


def _refusal(answer: bytes) -> dict[str, Any] | None:
    """Return the body of a refusal: it has a code, and says whether the same request may succeed later."""
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
