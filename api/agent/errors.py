"""The error catalogue: the status, hint and retriability of each code. Also the refusals for a failing database."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, NamedTuple

from api import database
from api.problems import Problem
from core.db.engine import Connection, ConnectionPool

RETRIABLE = frozenset({"rate_limited", "internal_error", "platform_paused"})
# In the specification's catalogue but never sent: the 402 has a different body, and there are no deposits.
_DEPOSITS = ("deposit_above_max", "deposit_unconfirmed", "deposit_mismatch", "deposit_tx_reused")
RESERVED = frozenset({"payment_required", *_DEPOSITS})


class ErrorEntry(NamedTuple):
    status: int
    hint: str


CATALOGUE: Mapping[str, ErrorEntry] = {
    "invalid_request": ErrorEntry(400, "Correct the fields listed in issues and try again."),
    "market_not_found": ErrorEntry(404, "Use the id or slug of a market listed by GET /markets."),
    "not_found": ErrorEntry(404, "Check the path and the id; GET /getting-started lists the first calls."),
    "platform_disabled": ErrorEntry(404, "The agent platform is switched off; try again later."),
    "market_closed": ErrorEntry(409, "Pick another market from GET /markets."),
    "idem_conflict": ErrorEntry(409, "Use a new idemKey for a different trade."),
    "invalid_side": ErrorEntry(422, "Use one of the market's outcome keys as side."),
    "invalid_wallet": ErrorEntry(422, "Write the wallet as 0x and 40 hexadecimal digits."),
    "size_below_min": ErrorEntry(422, "Bet at least 1 USD."),
    "quote_required": ErrorEntry(
        422, "Get a quote for this size and send its quoteId with minSharesOut or maxPriceCents."
    ),
    "quote_expired": ErrorEntry(422, "Get a fresh quote and trade within 60 seconds of it."),
    "quote_mismatch": ErrorEntry(422, "Get a quote for exactly this market, side and size; it is valid for one trade."),
    "slippage_exceeded": ErrorEntry(422, "Get a fresh quote, or allow fewer shares or a higher price."),
    "insufficient_balance": ErrorEntry(422, "Send USDC on Base to the wallet, or bet less."),
    "pool_impact_exceeded": ErrorEntry(422, "Bet at most details.largestSizeUsd; details.limit names the limit."),
    "unsupported_market": ErrorEntry(422, "Pick another market from GET /markets."),
    # Never a hint to pay again here: the payment may be pending. Where paying again is safe, the refusal says so.
    "payment_invalid": ErrorEntry(422, "Read the message: it gives the state of this authorization."),
    "rate_limited": ErrorEntry(429, "Wait for the seconds in Retry-After, then send the same request."),
    "internal_error": ErrorEntry(
        500, "Send the same request again shortly; with the same idemKey you never pay twice."
    ),
    "platform_paused": ErrorEntry(503, "Poll GET /health and trade again when health.ok is true."),
    "method_not_allowed": ErrorEntry(405, "Use one of the methods in the Allow header."),
    "payload_too_large": ErrorEntry(413, "Send a smaller body."),
    "unsupported_media_type": ErrorEntry(415, "Send the body as JSON, with Content-Type: application/json."),
    # RESERVED
    "payment_required": ErrorEntry(
        402,
        "Sign the authorization the challenge describes and send it in PAYMENT-SIGNATURE (x402 v2) or X-PAYMENT (v1).",
    ),
    **dict.fromkeys(_DEPOSITS, ErrorEntry(422, "Reserved.")),
}

WAIT = (
    "Send the same request again until the response has no final: false; a different bet sent before then may "
    "become a second one."
)


def problem(
    code: str,
    message: str,
    *,
    hint: str | None = None,
    status: int | None = None,
    retry_after: int | None = None,
    **extra: Any,
) -> Problem:
    """Return a refusal from the catalogue. Pass `status` only if the code has two statuses. Raise KeyError for a code
    that the API never sends."""
    if code in RESERVED:
        raise KeyError(code)
    entry = CATALOGUE[code]
    if hint is not None:
        extra["hint"] = hint
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Problem(status or entry.status, code, message, headers=headers, extra=extra)


def error_body(raised: Problem, request_id: str, docs_url: str) -> dict[str, Any]:
    """Return the body of an error other than the 402 challenge. The error may have been raised outside this surface."""
    code = (
        raised.code if raised.code in CATALOGUE else ("internal_error" if raised.status >= 500 else "invalid_request")
    )
    extra = dict(raised.extra)
    # Refused by a block that may be undone: the bet is signed, so another bet could be a second one.
    waits = extra.get("final") is False and code not in RETRIABLE
    own_hint = extra.pop("hint", CATALOGUE[code].hint)
    hint = WAIT if waits else own_hint
    issues = extra.pop("details", None) if raised.status == 400 else None
    body: dict[str, Any] = {
        "error": code,
        "message": raised.message,
        "hint": f"{hint} More: {docs_url}",
        "docsUrl": docs_url,
        "retriable": waits or code in RETRIABLE,
        "requestId": request_id,
        **extra,
    }
    if raised.status == 400:
        body.setdefault("issues", issues or [{"field": "request", "problem": raised.message}])
    return body


STORAGE_SECONDS = 3.0
STORAGE_AGAIN_SECONDS = 2


def storage(what: str, *, seconds: float = STORAGE_SECONDS, status: int = 500) -> AbstractAsyncContextManager[None]:
    """Limit how long the enclosed reads of `what` take. If the database fails, raise a retriable refusal."""
    refusal = partial(problem, "internal_error", status=status, retry_after=STORAGE_AGAIN_SECONDS)
    return database.reading(what, seconds=seconds, refusal=refusal)


def free_connection(pool: ConnectionPool) -> AbstractAsyncContextManager[Connection]:
    """Yield a pooled connection. Raise 429 if none becomes free soon; nothing has been written at that point."""
    return database.free_connection(pool, busy)


def busy() -> Problem:
    return problem(
        "rate_limited",
        "Too many trades are being checked at the moment, and this one was not accepted.",
        hint="Send the same request again; this does not affect a payment that was accepted before.",
        retry_after=STORAGE_AGAIN_SECONDS,
    )
