"""Requests to the agent surface. Amounts arrive as exact JSON numbers and are converted to token units (6 decimals)."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from aiohttp import web
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from api.agent.errors import problem
from api.agent.notices.sending import TargetRefused, checked_url
from api.openapi import required
from api.problems import invalid_part
from api.requests import WHOLE, read_json, validated_body
from core.errors import MoneyError
from core.money import USD, decimal_text, units_from_decimal, units_from_text

WALLET = r"^0x[0-9a-fA-F]{40}$"
WALLET_FORM = re.compile(r"0x[0-9a-fA-F]{40}")
BODY_LIMIT = 16 * 1024
MAX_SIZE_USD = 1_000_000_000
MIN_SIZE = 1 * USD
# The most dollars or shares in one trade: far more than exist, and results still fit the contract's numbers.
MAX_AMOUNT = 10**18
PRIVATE = "allow_private"
CHECKSUM_BYTES = 6
# An address without an owner.
EXAMPLE_WALLET = "0x" + "a1" * 20
WalletAddress = Annotated[str, WithJsonSchema({"type": "string", "pattern": WALLET, "examples": [EXAMPLE_WALLET]})]
WALLET_WORDS = "0x followed by 40 hexadecimal digits, case-insensitive."
MARKET_WORDS = "A market's id or slug."
SIDE_WORDS = "One of the market's outcome keys: `yes` or `no`, `up` or `down`, or a range's key."


def _exact(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError("must be a number")
    return Decimal(value) if isinstance(value, int) else value


def _target(value: str, info: ValidationInfo) -> str:
    """Refuse a callback URL that the service may not call. `info.context` may allow private addresses."""
    try:
        checked_url(value, allow_private=bool(info.context and info.context[PRIVATE]))
    except TargetRefused as why:
        raise ValueError(f"is not a valid callback: {why}".rstrip(".")) from None
    return value


def line(value: str) -> str:
    """Refuse NUL characters, which PostgreSQL cannot store."""
    if "\0" in value:
        raise ValueError("must not contain a NUL")
    return value


def _names(value: str) -> str:
    if not value.replace(",", "").strip():
        raise ValueError("names no market")
    return value


def _amount(value: Decimal) -> Decimal:
    try:
        units_from_decimal(value)
    except MoneyError as error:
        raise ValueError(error.message.rstrip(".")) from None
    return value


UsdAmount = Annotated[
    Decimal,
    BeforeValidator(_exact),
    AfterValidator(_amount),
    Field(gt=0, le=MAX_AMOUNT),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_AMOUNT}),
]
Text = Annotated[str, Field(min_length=1, max_length=200)]
WITHOUT_NUL = {"pattern": "^[^\\u0000]*$"}  # the check of `line` in the schema
Line = Annotated[Text, AfterValidator(line), Field(json_schema_extra=WITHOUT_NUL)]


def cursor_of(place: tuple[int, ...]) -> str:
    """Return an opaque cursor, with a checksum, for the page that begins after a sort key."""
    text = ".".join(map(str, place)).encode()
    return base64.urlsafe_b64encode(_checksum(text) + text).decode().rstrip("=")


def place_of(cursor: str, length: int) -> tuple[int, ...]:
    """Return a cursor's sort key. Raise 400 unless `cursor_of` made the cursor from a key of this length."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        check, text = raw[:CHECKSUM_BYTES], raw[CHECKSUM_BYTES:]
        place = tuple(int(part) for part in text.split(b"."))
    except ValueError:
        place, check, text = (), b"", b""
    if len(place) != length or check != _checksum(text):
        why = "is not a cursor for this list; leave it out for the first page"
        raise invalid_part("query parameter", "cursor", why)
    return place


def _checksum(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=CHECKSUM_BYTES).digest()


CURSOR_WORDS = "nextCursor of the previous page."
PageCursor = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9_-]+$"})]


class _Named(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class TradeRequest(_Named):
    """The body of a trade. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    market_id: Line = Field(description=MARKET_WORDS)
    side: Line = Field(description=SIDE_WORDS)
    size_usd: UsdAmount = Field(description="The stake in USD: at least 1, at most 6 decimals.")
    idem_key: Annotated[str, Field(min_length=8, max_length=128), AfterValidator(line)] = Field(
        description="Your own key, 8 to 128 characters, a new one for each bet (a UUID, for example). Sending it again "
        "returns the first receipt and pays nothing.",
        json_schema_extra={**WITHOUT_NUL},
    )
    wallet_address: WalletAddress = Field(description="The wallet that pays, owns the position and is paid out.")
    quote_id: Line | None = Field(
        default=None,
        description="The id of a quote for this market, side and size, at most 60 seconds old. Required above 10 USD, "
        "together with minSharesOut or maxPriceCents.",
    )
    min_shares_out: UsdAmount | None = Field(
        default=None,
        description="The fewest shares you accept, at most 6 decimals. The service and the contract refuse a bet that "
        "would get fewer.",
    )
    max_price_cents: Annotated[int, Field(ge=1, le=99), WHOLE] | None = Field(
        default=None, description="The highest average price per share, in cents, 1 to 99."
    )
    simulate: bool = Field(default=False, description="true: run the checks without paying or writing anything.")
    builder_code: Annotated[str, Field(pattern=WALLET)] | None = Field(
        default=None, description="An address to record as the bet's builder."
    )
    callback_url: Annotated[str, Field(max_length=2048), AfterValidator(_target)] | None = Field(
        default=None, description="An https URL to which the trade's events are pushed."
    )
    ref: Annotated[str, Field(pattern=r"^[A-Za-z0-9:_-]{1,32}$")] | None = Field(
        default=None, description="Your own reference, recorded with the bet: letters, digits, `:`, `_`, `-`."
    )

    @classmethod
    async def read(cls, request: web.Request, *, allow_private: bool) -> Self:
        """Read a body. Raise 413 for too large a body, 415 for another content type, and 400 with `issues` for invalid
        fields. Raise 422 if the wallet is malformed or the size is below 1 USD. `allow_private`: whether callbacks may
        go to private addresses and over plain http."""
        content = await read_json(request, limit=BODY_LIMIT, exact=True)
        trade = validated_body(cls, content, context={PRIVATE: allow_private})
        checked_wallet(trade.wallet_address)
        if trade.size < MIN_SIZE:
            raise problem("size_below_min", f"The smallest bet is 1 USD; this one is {decimal_text(trade.size)} USD.")
        return trade

    def example_body(self) -> dict[str, Any]:
        """Return the required fields as a JSON example. The size is a float, which is exact enough for an example."""
        return {
            "marketId": self.market_id,
            "side": self.side,
            "sizeUsd": float(self.size_usd),
            "walletAddress": self.wallet_address,
            "idemKey": self.idem_key,
        }

    @property
    def size(self) -> int:
        return units_from_decimal(self.size_usd)

    @property
    def wallet(self) -> str:
        return self.wallet_address.lower()

    @property
    def builder(self) -> str | None:
        """Return the builder in lower case, or None for the zero address, which means that there is no builder."""
        lowered = None if self.builder_code is None else self.builder_code.lower()
        return None if lowered == "0x" + "0" * 40 else lowered

    @property
    def min_shares(self) -> int | None:
        return None if self.min_shares_out is None else units_from_decimal(self.min_shares_out)

    def required_shares(self, net: int) -> int:
        """Return the fewest shares to accept for a stake of `net` after the fee, or 0 if there is no limit."""
        by_price = 0 if self.max_price_cents is None else -(-100 * net // self.max_price_cents)  # up: never dearer
        return max(self.min_shares or 0, by_price)


def checked_wallet(text: str | None) -> str:
    """Return the wallet in lower case; raise 422 if the text is not an address."""
    if text is None:
        raise problem("invalid_wallet", "The wallet is missing.")
    if not WALLET_FORM.fullmatch(text):
        raise problem("invalid_wallet", "The wallet is not 0x followed by 40 hexadecimal digits.")
    return text.lower()


def size_from_query(text: str) -> int:
    """Return sizeUsd in token units. Raise 400 if it is not an amount or too large, and 422 if it is below 1 USD."""
    try:
        size = units_from_text(text)
    except MoneyError as error:
        what = error.message.rstrip(".")
        raise invalid_part("query parameter", "sizeUsd", what[:1].lower() + what[1:]) from None
    if size > MAX_SIZE_USD * USD:
        what = f"must be at most {MAX_SIZE_USD}; split the bet into several"
        raise invalid_part("query parameter", "sizeUsd", what)
    if size < MIN_SIZE:
        raise problem("size_below_min", "The smallest bet is 1 USD.")
    return size


class MarketsQuery(BaseModel):
    status: Literal["open", "all"] = Field(default="open", description="`all` includes closed and settled markets.")
    type: str | None = Field(
        default=None,
        description="`market_cap` (yes or no), `market_cap_range` (one of several ranges) or `price_direction` (up or "
        "down).",
    )
    token: str | None = Field(default=None, description="A symbol, case-insensitive.")
    ids: Annotated[str, AfterValidator(_names), Field(json_schema_extra={"pattern": "[^,\\s]"})] | None = Field(
        default=None,
        description="One or more ids or slugs, separated by commas. Markets that are not open need `status=all`.",
    )
    limit: Annotated[int, Field(ge=1, le=200, description="Page size, 1 to 200.")] = 50
    cursor: PageCursor | None = Field(default=None, description=CURSOR_WORDS)


class MarketPath(BaseModel):
    id: Text = Field(description=MARKET_WORDS)


class TradePath(_Named):
    trade_id: Text = Field(description="0x followed by 64 hexadecimal digits, from a receipt or position.")


class AddressPath(BaseModel):
    address: WalletAddress = Field(description=WALLET_WORDS)


class QuoteQuery(_Named):
    market_id: Text = Field(description=MARKET_WORDS)
    side: Text = Field(default="yes", description=SIDE_WORDS)
    size_usd: Annotated[
        str, WithJsonSchema({"type": "number", "minimum": 1, "maximum": MAX_SIZE_USD, "examples": [5]})
    ] = Field(
        default="1",
        description="The stake in USD: at least 1, at most 6 decimals.",
        json_schema_extra={"default": 1},
    )
    wallet: WalletAddress | None = Field(
        default=None, description="The paying wallet; with it the warnings may include `wallet_underfunded`."
    )


class ResultQuery(_Named):
    market_id: Text = Field(description=MARKET_WORDS)


class WalletQuery(_Named):
    model_config = ConfigDict(json_schema_extra=required("wallet"))

    wallet: WalletAddress | None = Field(default=None, description=WALLET_WORDS)


# The default is the maximum, so that a client without paging gets its whole book, while a larger one stays bounded.
MAX_POSITIONS = 5_000


class PositionsQuery(WalletQuery):
    limit: Annotated[int, Field(ge=1, le=MAX_POSITIONS, description=f"Page size, 1 to {MAX_POSITIONS}.")] = (
        MAX_POSITIONS
    )
    cursor: PageCursor | None = Field(default=None, description=CURSOR_WORDS)


class PaymentHeaders(BaseModel):
    payment: str | None = Field(default=None, alias="PAYMENT-SIGNATURE", description="Base64 of the x402 v2 payload.")
    payment_v1: str | None = Field(default=None, alias="X-PAYMENT", description="Base64 of the x402 v1 envelope.")


HIGHEST_SEQ = 2**53 - 1
REPLAY_PAGE = 500
RESOLVED_PAGE, RESOLVED_MAX = 100, 500
# Fits the longest fields with every character escaped, so that a field that is too long is named in the refusal.
WEBHOOK_BODY_LIMIT = 128 * 1024
TRADE_ID = r"^0x[0-9a-fA-F]{64}$"
# Short enough to be below HIGHEST_SEQ.
LAST_EVENT_ID = r"^[0-9]{0,15}$"

Seq = Annotated[int, Field(ge=0, le=HIGHEST_SEQ)]


def _moment(value: str) -> int:
    """Convert an ISO-8601 time to microseconds since 1970. A time without a zone is UTC."""
    try:
        if not re.match(r"\d{4}-\d{2}-\d{2}", value):
            raise ValueError(value)
        # A plus sign in a query means a space.
        moment = datetime.fromisoformat(value.replace(" ", "+") if "T" in value else value)
    except ValueError:
        raise ValueError("must be a time like 2026-11-21T16:00:00Z") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _without_default(schema: dict[str, Any]) -> None:
    """Remove the default from the schema, because it is a number and not a time."""
    schema.pop("default", None)


class EventsQuery(WalletQuery):
    from_seq: Seq = Field(default=0, description="The first event to send, unless `Last-Event-ID` is set.")
    trade_id: Annotated[str, Field(pattern=TRADE_ID)] | None = Field(
        default=None, description="Only events of this trade."
    )


class EventsHeaders(BaseModel):
    last_event_id: Annotated[str, WithJsonSchema({"type": "string", "pattern": LAST_EVENT_ID})] | None = Field(
        default=None,
        alias="Last-Event-ID",
        description="The seq of the last event received; the stream resumes after it. Empty means absent.",
    )


class ReplayQuery(WalletQuery):
    from_seq: Seq = Field(default=0, description="The first event to return.")
    limit: Annotated[int, Field(ge=1, le=REPLAY_PAGE, description=f"Page size, 1 to {REPLAY_PAGE}.")] = REPLAY_PAGE


class ResolvedQuery(WalletQuery):
    since: Annotated[int, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})] = Field(
        default=0,
        description="Results after this time: `nextSince` of the previous page, or `createdAt` of the last event.",
        json_schema_extra=_without_default,
    )
    limit: Annotated[int, Field(ge=1, le=RESOLVED_MAX, description=f"Page size, 1 to {RESOLVED_MAX}.")] = RESOLVED_PAGE


class WebhookRequest(BaseModel):
    """The body of a webhook registration. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    wallet: WalletAddress = Field(description="The wallet whose events are pushed.")
    url: Annotated[str, Field(min_length=1, max_length=2048), AfterValidator(line)] = Field(
        description="The https URL to push to.", json_schema_extra={"format": "uri", **WITHOUT_NUL}
    )
    message: Annotated[str, Field(min_length=1, max_length=4096)] = Field(
        description="Five lines: `Service webhook registration`, `Service: <origin of this service>`, "
        "`Wallet: <lower-case>`, `URL: <url>`, "
        "`Issued: <ISO-8601>`, at most 10 minutes from now."
    )
    signature: Annotated[str, Field(min_length=1, max_length=4096)] = Field(
        description="The wallet's EIP-191 signature of `message` in hex, or one that its contract accepts (ERC-1271)."
    )


class WebhookPath(BaseModel):
    """The webhook id in a path. Any text is accepted; a text that is not an id matches no webhook."""

    id: str = Field(description="The id from the registration, `wh_` followed by 32 hexadecimal digits.")
