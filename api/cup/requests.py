"""The tournament's request models, and the messages that wallets sign for requests.

The models are also the input schemas of the MCP tools. An amount is a JSON number of pUSDC with at most two decimals
(in a query, decimal text); validation converts it to integer cents.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Final

from eth_account.messages import encode_defunct
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

from api.requests import WHOLE
from core.cup import MAX_CENTS, cents_of, rounds, text_of, wheel
from core.cup.board import is_week
from core.hexadecimal import bytes_of, hex_of
from core.signatures import message_hash, recover

# Belongs to no one. The addresses of development tools are unsuitable, because their keys are public.
EXAMPLE_WALLET = "0x" + "a1" * 20
_MAX_PAPER = MAX_CENTS // 100
# The bounds of quotes and simulations; a real trade of more fails for lack of funds.
PRICED = f"must be above 0 and at most {text_of(MAX_CENTS)}"


def _number(value: object) -> int:
    if isinstance(value, str):
        raise ValueError("must be a JSON number, not a string")
    return cents_of(value)


def _amount(value: object) -> int:
    cents = _number(value)
    if cents <= 0:
        raise ValueError("must be above 0")
    return cents


def _amount_text(value: object) -> int:
    cents = cents_of(value)
    if not 0 < cents <= MAX_CENTS:
        raise ValueError(PRICED)
    return cents


def _issued(value: object) -> object:
    if isinstance(value, str):
        try:
            parse_issued_at(value)
        except (ValueError, OverflowError):
            raise ValueError("must be ISO-8601 with an offset, such as 2026-11-21T12:00:00Z") from None
    return value


def _week(value: str) -> str:
    if not is_week(value):
        raise ValueError("must be an ISO week, such as 2026-W47")
    return value


def _storable(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


Week = Annotated[
    str,
    AfterValidator(_week),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{4}-W(0[1-9]|[1-4][0-9]|5[0-3])$", "examples": ["2026-W47"]}),
]
WalletAddress = Annotated[
    str,
    Field(pattern=r"^0x[0-9a-fA-F]{40}$", description="An EVM address, case-insensitive.", examples=[EXAMPLE_WALLET]),
    AfterValidator(str.lower),
]
_AMOUNT = WithJsonSchema(
    {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": _MAX_PAPER,
        "description": f"pUSDC, above 0 and at most {_MAX_PAPER:,}, with at most 2 decimals.",
        "examples": [25],
    }
)
STAKE_WORDS = (
    f"pUSDC, {text_of(wheel.MIN_BET_CENTS)} to {text_of(wheel.MAX_BET_CENTS)} for one bet and at most "
    f"{text_of(wheel.MAX_ROUND_CENTS)} for all bets of a wallet in a round, with at most 2 decimals."
)
ROUND_WORDS = (
    f"A round accepts bets for {rounds.BETTING.seconds} seconds and spins for {rounds.SPIN.seconds}; then the next "
    "opens."
)
PaperAmount = Annotated[int, BeforeValidator(_amount), _AMOUNT]
# A stake that is out of bounds is refused with an error that has the bounds.
PaperStake = Annotated[
    int,
    BeforeValidator(_number),
    WithJsonSchema(
        {
            "type": "number",
            "minimum": wheel.MIN_BET_CENTS // 100,
            "maximum": wheel.MAX_BET_CENTS // 100,
            "description": STAKE_WORDS,
            "examples": [25],
        }
    ),
]
PaperAmountText = Annotated[int, BeforeValidator(_amount_text), _AMOUNT]
IssuedAt = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9A-Z:+. -]{10,40}$"),
    BeforeValidator(_issued),
    WithJsonSchema(
        {
            "type": "string",
            "format": "date-time",
            "description": "When the message was signed: ISO-8601 with an offset or Z, exactly as in the message; at "
            "most 5 minutes from the server's time.",
            "examples": ["2026-11-21T12:00:00Z"],
        }
    ),
]
# Any length is accepted here, as for the names below: the service checks the content, with its own error codes.
SignatureText = Annotated[str, Field(description="The EIP-191 personal_sign signature as 0x hex, 65 bytes.")]
TradeId = Annotated[
    str,
    Field(
        pattern=r"^[!-~]{1,128}$",
        description="Your own id for the trade, for example a UUID. The same id never trades twice.",
    ),
]
_KEY = {"minLength": 1, "maxLength": 64}  # documentation only: an unknown key is refused with its own error code
Slug = Annotated[
    str,
    Field(
        description="A market's slug, from the list of markets.", json_schema_extra={"minLength": 1, "maxLength": 200}
    ),
]
SideKey = Annotated[str, Field(description="An outcome's key in that market.", json_schema_extra=_KEY)]
MarketsLimit = Annotated[
    int,
    Field(ge=1, description="The number of markets, at least 1; more than 100 counts as 100."),
    AfterValidator(partial(min, 100)),
]
BoardLimit = Annotated[
    int,
    Field(ge=1, description="The number of entries, at least 1; more than 200 counts as 200."),
    AfterValidator(partial(min, 200)),
]
PocketKey = Annotated[
    str,
    Field(
        description="An outcome's key in the live round, such as colour:red or num:17:yes.",
        examples=["colour:red"],
        json_schema_extra=_KEY,
    ),
]
RoundNo = Annotated[int, Field(ge=1, le=2**53, description="The live round's number.", strict=True), WHOLE]
Simulate = Annotated[
    bool, Field(strict=True, description="true: a dry run, which needs no signature and writes nothing.")
]


class Request(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True, validate_by_name=False, frozen=True)


class WalletRequest(Request):
    wallet_address: WalletAddress


class WalletPath(Request):
    address: WalletAddress


class MarketPath(Request):
    slug: Slug


class MarketsQuery(Request):
    limit: MarketsLimit = 25


class QuoteQuery(Request):
    side: SideKey
    size_paper: PaperAmountText


class TradeRequest(Request):
    wallet_address: Annotated[WalletAddress | None, Field(description="Needed for a real trade.")] = None
    slug: Slug
    side: SideKey
    size_paper: PaperAmount
    simulate: Annotated[
        Simulate, Field(description="true: a dry run, which needs no signature and writes nothing.")
    ] = False
    trade_id: Annotated[TradeId | None, Field(description="Needed for a real trade.")] = None
    issued_at: Annotated[IssuedAt | None, Field(description="Needed for a real trade.")] = None
    signature: Annotated[SignatureText | None, Field(description="Needed for a real trade.")] = None


class BoardQuery(Request):
    week: Annotated[Week | None, Field(description="An ISO week (UTC); without it: all time.")] = None
    limit: BoardLimit = 50
    wallet: Annotated[WalletAddress | None, Field(description="Adds this wallet's own rank as `you`.")] = None
    agents: Annotated[bool, Field(description="true: only enrolled agents.")] = False


class RoundQuery(Request):
    wallet: Annotated[WalletAddress | None, Field(description="Adds this wallet's bets on the round.")] = None


class BetRequest(Request):
    wallet_address: Annotated[WalletAddress | None, Field(description="Needed for a real bet.")] = None
    bet_key: PocketKey
    stake_paper: PaperStake
    simulate: Annotated[
        Simulate, Field(description="true: a dry run, which needs no signature and writes nothing.")
    ] = False
    round_no: Annotated[RoundNo | None, Field(description="Needed for a real bet: the live round.")] = None
    issued_at: Annotated[IssuedAt | None, Field(description="Needed for a real bet.")] = None
    signature: Annotated[SignatureText | None, Field(description="Needed for a real bet.")] = None


class EnrolRequest(Request):
    wallet_address: WalletAddress
    signature: SignatureText
    issued_at: IssuedAt
    note: Annotated[
        str,
        StringConstraints(max_length=280),
        AfterValidator(_storable),
        Field(json_schema_extra={"pattern": r"^[^\u0000]*$"}),
    ] = ""


# ---------------------------------------------------------------- signed messages
#
# EIP-191 personal_sign, byte for byte. Lines are joined by newlines. No field can contain one (slugs and keys must
# exist, ids and times match patterns), so two different requests never share a message.

WINDOW: Final = timedelta(minutes=5)


def trade_message(wallet: str, slug: str, side: str, size_cents: int, trade_id: str, issued_at: str) -> str:
    return (
        "Service Cup paper trade\n"
        f"Wallet: {wallet.lower()}\n"
        f"Market: {slug}\n"
        f"Side: {side}\n"
        f"Size: {text_of(size_cents)} pUSDC\n"
        f"Trade: {trade_id}\n"
        f"Issued: {issued_at}"
    )


def bet_message(wallet: str, round_no: int, bet_key: str, stake_cents: int, issued_at: str) -> str:
    return (
        "Service Cup roulette bet\n"
        f"Wallet: {wallet.lower()}\n"
        f"Round: {round_no}\n"
        f"Bet: {bet_key}\n"
        f"Size: {text_of(stake_cents)} pUSDC\n"
        f"Issued: {issued_at}"
    )


def enrolment_message(wallet: str, issued_at: str) -> str:
    return f"Service Cup agent enrollment\nWallet: {wallet.lower()}\nI operate this agent myself.\nIssued: {issued_at}"


def signature_bytes(text: str) -> bytes | None:
    """Parse a 0x-prefixed hex signature of 65 bytes. Return None if it is malformed."""
    if not text.startswith(("0x", "0X")):
        return None
    try:
        return bytes_of(text, 65)
    except ValueError:
        return None


def signer_of(message: str, signature: bytes) -> str | None:
    """Return the lower-case address that signed `message`, or None if the signature is invalid."""
    parity = _parity(signature[64]) if len(signature) == 65 else None
    if parity is None:
        return None
    signer = recover(message_hash(encode_defunct(text=message)), signature[:64], parity)
    return None if signer is None else hex_of(signer)


def _parity(v: int) -> int | None:
    """Return the parity that a signature's last byte encodes as 0 or 1, as 27 or 28, or as an EIP-155 value. Return
    None for any other value."""
    if v in (0, 1):
        return v
    if v in (27, 28):
        return v - 27
    return (v - 35) % 2 if v >= 35 else None


def parse_issued_at(text: str) -> datetime:
    """Parse an ISO-8601 time with an offset or Z. Raise ValueError for any other text."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the time has no offset")
    return moment.astimezone(UTC)


def in_window(text: str, now: datetime) -> bool:
    return abs(parse_issued_at(text) - now) <= WINDOW
