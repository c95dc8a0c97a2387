"""The bodies of the stock surface. Requests are validated by these models; answers are documented by them, and the
tests hold every answer to them, field by field."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

UINT256_MAX = 2**256 - 1

Amount = Annotated[
    str,
    Field(pattern=r"^(0|[1-9][0-9]*)$", description="USDG in its smallest unit (6 decimals).", examples=["5000000"]),
]
Integer = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]*)$", description="An integer.", examples=["0"])]
Answer8 = Annotated[
    str, Field(pattern=r"^-?(0|[1-9][0-9]*)$", description="An oracle answer (8 decimals).", examples=["18740000000"])
]
RoundId = Annotated[
    str, Field(pattern=r"^(0|[1-9][0-9]*)$", description="`phase << 64 | number`.", examples=["18446744073709551617"])
]
Address = Annotated[str, Field(pattern=r"^0x[0-9a-fA-F]{40}$", description="A checksummed address.")]
Hash = Annotated[str, Field(pattern=r"^0x[0-9a-f]{64}$")]
Seconds = Annotated[int, Field(ge=0, description="Unix seconds.")]
Side = Literal["UP", "DOWN"]
ReadAt = Annotated[int, Field(ge=0, description="When the chain was last read, in Unix seconds; 0 if never.")]
Stale = Annotated[
    bool, Field(description="True when the chain could not be read lately and the last good read is served.")
]


class Body(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_alias=True, validate_by_name=True, extra="forbid", strict=True
    )


class ErrorBody(BaseModel):
    """Every error: a stable code and a sentence. Some carry more fields, such as `retryAfter` or `escapeKit`."""

    model_config = ConfigDict(extra="allow")

    error: Annotated[str, Field(examples=["invalid_request"])]
    message: str


# ---------------------------------------------------------------- prices


class PriceReading(Body):
    ticker: str
    name: str
    feed: Address
    answer: Answer8
    round_id: RoundId
    updated_at: Annotated[int, Field(description="The round's update time, in Unix seconds.")]


class PricesBody(Body):
    """Latest oracle reading of every ticker."""

    status: Annotated[
        Literal["live", "stale-cache", "unavailable"],
        Field(description="`stale-cache`: the chain cannot be read, these are the last good readings."),
    ]
    read_at: ReadAt
    readings: list[PriceReading]


# ---------------------------------------------------------------- markets


class RoundBody(Body):
    answer: Answer8
    round_id: RoundId
    at: Seconds


class ChangeBody(Body):
    direction: Annotated[Literal["UP", "DOWN", "FLAT"], Field(description="Where `live` stands against `strike`.")]
    bps: Annotated[int, Field(description="Basis points, rounded towards zero.")]
    text: str


class UpDown(Body):
    up: Amount
    down: Amount


class TotalsBody(Body):
    pool: Amount
    up: Amount
    down: Amount
    pending_up: Annotated[Amount, Field(description="Offered in the batch that is not matched yet.")]
    pending_down: Amount
    paid_out: Annotated[Amount, Field(description="Settlement payouts sent, after fees.")]


class LimitsBody(Body):
    min_entry: Amount
    max_entry: Amount
    fee_bps: int


class RuleSegment(Body):
    title: str
    text: str


class RulesBody(Body):
    heading: str
    segments: list[RuleSegment]
    text: str


class MarketBody(Body):
    """A market with its book and state. `strike`, `live` and `change` are null only in phase `opens`."""

    id: str
    href: str
    ticker: str
    family: Literal["daily", "weekly", "drill"]
    question: str
    phase: Annotated[
        Literal["opens", "live", "frozen", "resolved", "void"],
        Field(description="By the time of the chain's newest block. Bets are taken in `opens` and `live`."),
    ]
    status: str
    winner: Side | None
    strike_time: Seconds
    final_time: Seconds
    strike: Annotated[
        RoundBody | None,
        Field(description="The round in effect at the strike time; before it, the latest. Zeros when there is none."),
    ]
    strike_problem: str | None
    live: RoundBody | None
    change: ChangeBody | None
    pool: Annotated[UpDown, Field(description="Accepted amounts, seed included.")]
    totals: TotalsBody
    headroom: Annotated[UpDown, Field(description="What each side would still accept in this block.")]
    limits: LimitsBody
    accepting_bets: bool
    max_strike_age: int
    max_final_age: int
    voidable_at: Annotated[int, Field(description="From then on anyone can void it, if it is still unsettled.")]
    seed_per_leg: Amount
    opener: Address
    opened_at: Seconds
    opened_tx: Hash
    spec_id: Hash
    feed: Address
    stock_token: Address
    positions: Annotated[int, Field(description="How many there are, the seed's two counted.")]
    rules: RulesBody


class MarketsBody(Body):
    """Every market, newest first."""

    deployed: bool
    status: Literal["deployed", "not-deployed"]
    entries_paused: bool
    read_at: ReadAt
    stale: Stale
    markets: list[MarketBody]


class SettlementBody(Body):
    gross: Amount
    fee: Amount
    net: Amount
    refund: Amount
    total: Annotated[Amount, Field(description="What of `net` and `refund` is not sent yet.")]
    deliverable: bool


class PositionBody(Body):
    id: str
    market_id: str
    owner: Address
    side: Side
    offered: Amount
    accepted: Annotated[Amount | None, Field(description="Null until its batch is matched.")]
    refused: Amount
    accrued: Annotated[Amount, Field(description="Paid if this side won now; only goes up.")]
    payout: Annotated[Amount | None, Field(description="After settlement: what it is paid, after the fee.")]
    classic_payout: Annotated[
        Amount | None, Field(description="After a resolution: what an ordinary pool would have paid.")
    ]
    seed: bool
    opener: bool
    finalized: bool
    refunded: bool
    claimed: bool
    vintage: Annotated[str, Field(description="Ethereum block of entry, 0 for the seed.")]
    settlement: SettlementBody
    paid_out: Amount | None
    entered_at: int | None
    entry_tx: Hash | None
    payout_tx: Hash | None


class ResolutionBody(Body):
    """`strikeRound` and `finalRound` are null where no round was needed (an oracle that stayed paused, the timeout)."""

    outcome: Literal["UP", "DOWN", "FLAT", "VOID"]
    reason: Literal["flat", "stale", "paused", "timeout"] | None
    detail: str
    strike_round: RoundId | None
    final_round: RoundId | None
    strike: RoundBody | None
    final: RoundBody | None
    tx: Hash
    at: Seconds


class HeadBody(Body):
    block_number: Integer
    l1_block_number: Annotated[Integer, Field(alias="l1BlockNumber")]
    timestamp: Seconds


class BookBody(Body):
    """Integers: amounts in USDG units, `acc` in units promised per unit of principal, times 1e18."""

    principal: Integer
    acc: Integer
    capacity: Integer
    vested: Integer
    demand: Integer
    live: Integer


class FinderBody(Body):
    """The two rounds the round finder proved, and what they say."""

    ok: bool
    strike_round: RoundId | None
    final_round: RoundId | None
    strike: RoundBody | None
    final: RoundBody | None
    expected: Literal["UP", "DOWN", "FLAT", "VOID"] | None
    problem: str | None


class PreviewBody(Body):
    """The resolver's preview; zeros where it has no reading."""

    status: Annotated[int, Field(ge=0, le=7)]
    name: Literal["NOT READY", "UP", "DOWN", "FLAT", "STALE", "BAD PROOF", "PAUSED", "BAD ANSWER"]
    strike_round: RoundId
    strike_answer: Answer8
    strike_at: int
    final_round: RoundId
    final_answer: Answer8
    final_at: int


class MarketDetailBody(Body):
    """One market with its books and every position in the order of entry."""

    market: MarketBody
    headroom: UpDown
    positions: list[PositionBody]
    resolution: Annotated[ResolutionBody | None, Field(description="Null until settled.")]
    head: HeadBody
    entries_paused: bool
    vintage_block: Annotated[str | None, Field(description="The open batch's Ethereum block.")]
    kappa: Integer
    books: Annotated[list[BookBody], Field(min_length=2, max_length=2, description="UP, then DOWN.")]
    finder: Annotated[FinderBody | None, Field(description="Null until after the bell.")]
    preview: Annotated[PreviewBody | None, Field(description="Null until after the bell.")]
    activity: Annotated[bool, Field(description="Entry times and links were read from logs.")]
    read_at: ReadAt
    stale: Stale


class MarketPath(BaseModel):
    id: Annotated[str, Field(description="The market's id.", examples=["1"])]


class MarketsQuery(BaseModel):
    limit: Annotated[int | None, Field(ge=1, le=500, description="At most so many.")] = None
    before: Annotated[int | None, Field(ge=1, le=2**63 - 1, description="Only markets with a lower id.")] = None


# ---------------------------------------------------------------- positions


class OwnedPositionBody(PositionBody):
    question: str
    ticker: str
    href: str
    phase: Literal["opens", "live", "frozen", "resolved", "void"]
    status: str
    winner: Side | None
    final_time: Seconds
    open: bool


class OwnerTotalsBody(Body):
    staked: Amount
    accrued: Annotated[Amount, Field(description="Sum over open positions if their side wins now.")]
    paid: Annotated[Amount, Field(description="Settlement payouts already sent, after the fee.")]
    accepted: Amount
    deliverable: Annotated[Amount, Field(description="What claims and refunds would deliver now.")]
    open: int


class OwnerBody(Body):
    """One address's positions across markets, newest first."""

    owner: Address
    deployed: bool
    positions: list[OwnedPositionBody]
    totals: OwnerTotalsBody
    read_at: ReadAt
    stale: Stale


class OwnerQuery(BaseModel):
    owner: Annotated[
        str,
        Field(pattern=r"^0[xX][0-9a-fA-F]{40}$", description="An address, in any case."),
    ]


# ---------------------------------------------------------------- proof


class ContractProof(Body):
    name: str
    role: str
    address: Address
    deploy_tx: Hash | None
    verified: bool


class FeedProof(Body):
    name: str
    address: Address
    ticker: str
    stock_token: Address
    decimals: int
    heartbeat_seconds: int
    deviation_bps: int
    answer: Answer8 | None
    updated_at: int | None


class SafeProof(Body):
    """The multi-signature wallet, as its own contract answers."""

    address: Address
    threshold: int
    owners: int


class CounterProof(Body):
    label: str
    value: str
    unit: str
    source: Annotated[str, Field(description="A link to where the same can be read.")]
    source_label: Annotated[str, Field(description="The call that shows the same.")]
    note: str | None


class SettledProof(Body):
    id: str
    question: str
    outcome: Literal["UP", "DOWN", "FLAT", "VOID"]
    strike: RoundBody | None
    final: RoundBody | None
    resolve_tx: Hash
    positions: int
    total_paid: Amount


class RefundProof(Body):
    position_id: str
    owner: Address
    amount: Amount
    tx: Hash | None


class RefundDrillProof(Body):
    id: str
    status: Literal["listed", "refunded"]
    reason: str | None
    void_tx_url: str | None
    refunds: list[RefundProof]


class FeeSweepProof(Body):
    tx: Hash
    amount: Amount
    at: Seconds


class BettorsProof(Body):
    """`distinct` and `bets` leave the operator's own wallets out; their bets are `operatorBets`."""

    distinct: int
    excluded: list[Address]
    operator_bets: int
    bets: int


class UsdgProof(Body):
    staked: Amount
    accepted: Amount
    seeded: Amount
    paid_to_bettors: Amount
    paid_out: Amount
    fees_taken: Amount
    fees_accrued: Amount
    fees_swept: Amount


class SolvencyProof(Body):
    """The contract's token balance beside all it owes, at one block."""

    contract: str
    address: Address
    balance: Amount
    liabilities: Amount
    block: Integer


class AuditProof(Body):
    """The last comparison of everything shown with the contracts' own views."""

    at: Seconds
    block: Integer
    compared: int
    mismatches: int


class ProofBody(Body):
    status: Literal["deployed", "not-deployed"]
    contracts: list[ContractProof]
    feeds: list[FeedProof]
    safe: SafeProof | None
    counters: list[CounterProof]
    settled: list[SettledProof]
    refund_drill: RefundDrillProof | None
    fee_sweeps: list[FeeSweepProof]
    bettors: BettorsProof
    usdg: UsdgProof
    solvency: list[SolvencyProof]
    audit: AuditProof | None
    attester: Annotated[
        Address | None, Field(description="Whose key signs offers and receipts of the agent API; null without one.")
    ]
    missing: Annotated[list[str], Field(description="Sections that cannot be read right now.")]
    read_at: ReadAt
    stale: Stale


# ---------------------------------------------------------------- health


class CheckBody(Body):
    name: str
    ok: bool
    detail: str


class HealthBody(Body):
    """200 when every check holds, 503 otherwise."""

    ok: bool
    deployed: bool
    now_sec: Seconds
    checks: list[CheckBody]


# ---------------------------------------------------------------- relay

Uint256Text = Annotated[
    str,
    Field(pattern=r"^(0|[1-9][0-9]{0,77})$", description="A decimal integer below 2^256."),
]


class RelayRequest(BaseModel):
    """A signed bet. Sign the token's ReceiveWithAuthorization; `GET /api/relay/typed-data` gives it ready to sign."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True, extra="ignore")

    from_: Annotated[
        str,
        Field(
            alias="from",
            strict=True,
            pattern=r"^0[xX][0-9a-fA-F]{40}$",
            description="The signer's address; becomes the position's owner.",
        ),
    ]
    market_id: Annotated[
        str, Field(strict=True, pattern=r"^[1-9][0-9]{0,18}$", description="The market's id.", examples=["1"])
    ]
    outcome: Annotated[int, Field(strict=True, ge=0, le=1, description="0 = UP, 1 = DOWN.")]
    amount: Annotated[Uint256Text, Field(strict=True, description="USDG units (6 decimals).", examples=["5000000"])]
    valid_after: Annotated[Uint256Text, Field(strict=True, description="Unix seconds; 0 is fine.", examples=["0"])]
    valid_before: Annotated[
        Uint256Text, Field(strict=True, description="Unix seconds, from 30 s to 1 hour ahead of the chain's clock.")
    ]
    salt: Annotated[
        str, Field(strict=True, pattern=r"^(0[xX])?[0-9a-fA-F]{64}$", description="32 random bytes, in hex.")
    ]
    signature: Annotated[
        str,
        Field(
            strict=True,
            pattern=r"^(0[xX])?([0-9a-fA-F]{2}){1,2048}$",
            description="65 bytes r, s, v, in hex: EIP-712 over the token's ReceiveWithAuthorization.",
        ),
    ]
    chain_id: Annotated[int | None, Field(strict=True, description="Checked when given.")] = None
    service_vpm: Annotated[
        str | None,
        Field(strict=True, pattern=r"^0[xX][0-9a-fA-F]{40}$", description="The settler's address; checked when given."),
    ] = None

    @field_validator("amount", "valid_after", "valid_before")
    @classmethod
    def _fits(cls, text: str) -> str:
        if int(text) > UINT256_MAX:
            raise ValueError("it does not fit 256 bits")
        return text


class EscapeKit(Body):
    """The call itself: anyone can send it, with or without this service, until the bet expires."""

    to: Address
    data: Annotated[str, Field(pattern=r"^0x[0-9a-f]+$")]
    chain_id: int
    expires_at: Seconds


class RelayBody(Body):
    """`ok` is false only for `reverted`. `pending`: it was sent and is not mined yet; sending the same body again asks
    after it and never bets twice."""

    ok: bool
    tx_hash: Hash
    nonce: Annotated[Hash, Field(description="The authorization's nonce.")]
    receipt: Literal["confirmed", "pending", "reverted"]
    position_id: Annotated[str | None, Field(description="Once it is known.")]
    block_number: Integer | None
    escape_kit: EscapeKit


class TypedDataQuery(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True)

    market_id: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,18}$", description="The market's id.", examples=["1"])]
    outcome: Annotated[int, Field(ge=0, le=1, description="0 = UP, 1 = DOWN.")]
    amount: Annotated[
        str, Field(pattern=r"^[1-9][0-9]{0,77}$", description="USDG units (6 decimals).", examples=["5000000"])
    ]
    from_: Annotated[
        str | None,
        Field(alias="from", pattern=r"^0[xX][0-9a-fA-F]{40}$", description="The signer; the zero address otherwise."),
    ] = None
    salt: Annotated[
        str | None,
        Field(pattern=r"^(0[xX])?[0-9a-fA-F]{64}$", description="32 bytes in hex; random ones otherwise."),
    ] = None
    valid_seconds: Annotated[int, Field(ge=60, le=3540, description="How long the bet may be entered.")] = 600


class DomainBody(Body):
    name: str
    version: str
    chain_id: int
    verifying_contract: Address


class AuthorizationBody(BaseModel):
    """The token's ReceiveWithAuthorization; numbers as text, so that no wallet rounds them."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True, extra="forbid", strict=True)

    from_: Annotated[Address, Field(alias="from")]
    to: Address
    value: Integer
    valid_after: Integer
    valid_before: Integer
    nonce: Hash


class TypedDataBody(Body):
    """What to sign with `eth_signTypedData_v4` (domain, types, primaryType, message), and the relay's body without the
    signature. Fill in `message.from` and `request.from` when the query did not name the signer."""

    domain: DomainBody
    types: dict[str, list[dict[str, str]]]
    primary_type: Literal["ReceiveWithAuthorization"]
    message: AuthorizationBody
    nonce: Hash
    nonce_formula: str
    request: dict[str, Any]


# ---------------------------------------------------------------- cron


class CronPath(BaseModel):
    job: Annotated[Literal["open", "resolve", "deliver"], Field(description="The keeper's job.")]


class CronHeaders(BaseModel):
    authorization: Annotated[str, Field(alias="Authorization", description="`Bearer <CRON_SECRET>`.")]


class CronAction(Body):
    kind: str
    target: str
    status: str
    tx_hash: Hash | None
    detail: str | None


class CronSkip(Body):
    target: str
    reason: str


class CronReport(Body):
    """What the keeper's job did, left out and failed at. Running it again changes nothing that was done."""

    job: Literal["open", "resolve", "deliver"]
    ok: bool
    started_at: Seconds
    finished_at: Seconds
    actions: list[CronAction]
    skipped: list[CronSkip]
    errors: list[str]
