"""The bodies of markets, prices and positions, and the types that all bodies of the stock surface share."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from api.operations import Body

UsdgUnits = Annotated[
    str,
    Meta(pattern=r"^(0|[1-9][0-9]*)$", description="USDG in its smallest unit (6 decimals).", examples=["5000000"]),
]

Integer = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]*)$", description="An integer.", examples=["0"])]

Answer8 = Annotated[
    str, Meta(pattern=r"^-?(0|[1-9][0-9]*)$", description="An oracle answer (8 decimals).", examples=["18740000000"])
]

RoundId = Annotated[
    str, Meta(pattern=r"^(0|[1-9][0-9]*)$", description="`phase << 64 | number`.", examples=["18446744073709551617"])
]

HexAddress = Annotated[str, Meta(pattern=r"^0x[0-9a-fA-F]{40}$", description="A checksummed address.")]
HexHash = Annotated[str, Meta(pattern=r"^0x[0-9a-f]{64}$")]
UnixSeconds = Annotated[int, Meta(ge=0, description="Unix seconds.")]
Side = Literal["UP", "DOWN"]
FamilyName = Literal["daily", "weekly", "drill"]
PhaseName = Literal["opens", "live", "frozen", "resolved", "void"]
OutcomeName = Literal["UP", "DOWN", "FLAT", "VOID"]
ReadAt = Annotated[int, Meta(ge=0, description="When the chain was last read, in Unix seconds; 0 if never.")]
Stale = Annotated[bool, Meta(description="True while the chain or a feed is unreadable and older data is served.")]


class ErrorBody(Body):
    """The body of every error: a stable code and a message. Some have more fields, such as `retryAfter` or
    `escapeKit`."""

    error: Annotated[str, Meta(examples=["invalid_request"])]
    message: str


class RoundBody(Body):
    answer: Answer8
    round_id: RoundId
    at: UnixSeconds


class SettlementBody(Body):
    gross: UsdgUnits
    fee: UsdgUnits
    net: UsdgUnits
    refund: UsdgUnits
    total: Annotated[UsdgUnits, Meta(description="The part of `net` and `refund` that has not been sent yet.")]
    deliverable: bool


class PositionBody(Body):
    id: str
    market_id: str
    owner: Annotated[HexAddress, Meta(description="The current owner, who gets paid.")]
    entered_by: Annotated[HexAddress, Meta(description="The wallet that placed it, even if another owns it now.")]
    side: Side
    offered: UsdgUnits
    accepted: Annotated[UsdgUnits | None, Meta(description="Null until its batch is matched.")]
    refused: UsdgUnits
    accrued: Annotated[
        UsdgUnits, Meta(description="The payout if this side won now, before the fee on the profit; it only rises.")
    ]
    payout: Annotated[UsdgUnits | None, Meta(description="After settlement: the payout after the fee.")]
    classic_payout: Annotated[
        UsdgUnits | None, Meta(description="After a resolution: what an ordinary pool would have paid.")
    ]
    seed: bool
    opener: Annotated[bool, Meta(description="Placed by the wallet that listed the market.")]
    finalized: bool
    refunded: Annotated[
        bool, Meta(description="A refund was sent. The contract's flag is also set by a refund of zero.")
    ]
    claimed: Annotated[
        bool, Meta(description="A payout was sent. The contract's flag is also set by a payout of zero.")
    ]
    vintage: Annotated[str, Meta(description="Ethereum block of entry, 0 for the seed.")]
    settlement: SettlementBody
    paid_out: UsdgUnits | None
    entered_at: int | None
    entry_tx: HexHash | None
    payout_tx: HexHash | None


class OwnedPositionBody(PositionBody):
    question: str
    ticker: str
    href: str
    phase: PhaseName
    status: str
    winner: Side | None
    final_time: UnixSeconds
    open: bool


class OwnerTotalsBody(Body):
    staked: UsdgUnits
    accrued: Annotated[
        UsdgUnits,
        Meta(
            description="The payout of open positions if their sides win now, before the fee, rounded down per market "
            "and side."
        ),
    ]
    paid: Annotated[UsdgUnits, Meta(description="Settlement payouts already sent, after the fee.")]
    accepted: UsdgUnits
    deliverable: Annotated[UsdgUnits, Meta(description="The amount that claims and refunds would deliver now.")]
    open: int


class OwnerBody(Body):
    """One address's positions across markets, newest first: a page of them, and the totals of all."""

    owner: HexAddress
    deployed: bool
    positions: list[OwnedPositionBody]
    totals: OwnerTotalsBody
    read_at: ReadAt
    stale: Stale
    next_before: Annotated[str | None, Meta(description="`before` for the next page; null on the last page.")]


class QuoteBasisBody(Body):
    """The data behind a quote."""

    usual_volume: Annotated[UsdgUnits, Meta(description="The usual volume of such a market, without its seed.")]
    settled_markets: Annotated[int, Meta(ge=0, description="How many settled markets of this family it is based on.")]
    text: str


class QuoteBody(Body):
    """The estimate for a bet made now, assuming the usual later bets. A winning bet pays at least `accepted`."""

    side: Side
    amount: UsdgUnits
    accepted: Annotated[UsdgUnits, Meta(description="The part that the market would accept in this block.")]
    likely_payout: Annotated[UsdgUnits, Meta(description="The likely payout if its side wins, after the fee.")]
    break_even_pct: Annotated[
        float | None,
        Meta(
            description="The chance of winning, in percent, that the bet needs to break even on average. 100: no "
            "profit is possible any more. Null if nothing is accepted.",
        ),
    ]


class BetQuoteBody(QuoteBody):
    """The quote of one bet, with its basis."""

    rests_on: QuoteBasisBody


class QuotesBody(Body):
    """Quotes of example stakes on either side; empty while no bets are accepted."""

    bets: list[QuoteBody]
    rests_on: QuoteBasisBody


VoidReasonName = Literal["flat", "stale", "paused", "timeout"]
PreviewName = Literal["NOT READY", "UP", "DOWN", "FLAT", "STALE", "BAD PROOF", "PAUSED", "BAD ANSWER"]


class PriceReading(Body):
    ticker: str
    name: str
    feed: HexAddress
    answer: Answer8
    round_id: RoundId
    updated_at: Annotated[int, Meta(description="The round's update time, in Unix seconds.")]
    stale: Annotated[bool, Meta(description="The feed is unreadable; this is its last good reading.")]


class PricesBody(Body):
    """The latest oracle reading of every ticker."""

    status: Annotated[
        Literal["live", "stale-cache", "unavailable"],
        Meta(description="`stale-cache`: the chain or a feed is unreadable; `stale` readings are the last good ones."),
    ]
    read_at: ReadAt
    readings: list[PriceReading]


class ChangeBody(Body):
    direction: Annotated[Literal["UP", "DOWN", "FLAT"], Meta(description="`live` compared with `strike`.")]
    bps: Annotated[int, Meta(description="Basis points, rounded towards zero.")]
    text: str


class UpDown(Body):
    up: UsdgUnits
    down: UsdgUnits


class TotalsBody(Body):
    pool: UsdgUnits
    up: UsdgUnits
    down: UsdgUnits
    pending_up: Annotated[UsdgUnits, Meta(description="Stakes in the batch that has not been matched yet.")]
    pending_down: UsdgUnits
    paid_out: Annotated[UsdgUnits, Meta(description="Settlement payouts sent, after fees.")]


class LimitsBody(Body):
    min_entry: UsdgUnits
    max_entry: UsdgUnits
    side_cap: Annotated[UsdgUnits, Meta(description="The maximum that one side can hold, including its seed.")]
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
    family: FamilyName
    question: str
    phase: Annotated[
        PhaseName,
        Meta(description="As of the chain's newest block. Bets are accepted in `opens` and `live`."),
    ]
    status: str
    winner: Side | None
    strike_time: UnixSeconds
    final_time: UnixSeconds
    strike: Annotated[
        RoundBody | None,
        Meta(description="The round in effect at the strike time; before it, the latest. Zeros when there is none."),
    ]
    strike_problem: str | None
    live: RoundBody | None
    change: ChangeBody | None
    pool: Annotated[UpDown, Meta(description="Accepted amounts, seed included.")]
    totals: TotalsBody
    headroom: Annotated[UpDown, Meta(description="The amount each side would still accept in this block.")]
    limits: LimitsBody
    quotes: QuotesBody
    accepting_bets: bool
    bets_halted: Annotated[
        str | None,
        Meta(
            description="Why betting on an open market is halted: its stock's oracle is paused, its feed has stopped, "
            "or the chain's sequencer is down. Null otherwise."
        ),
    ]
    max_strike_age: int
    max_final_age: int
    voidable_at: Annotated[int, Meta(description="The time from which anyone can void the market if it is unsettled.")]
    seed_per_leg: UsdgUnits
    opener: HexAddress
    opened_at: UnixSeconds
    opened_tx: HexHash
    spec_id: HexHash
    feed: HexAddress
    stock_token: HexAddress
    positions: Annotated[int, Meta(description="The number of positions, including the seed's two.")]
    rules: RulesBody


class MarketsBody(Body):
    """Markets, newest first."""

    deployed: bool
    status: Literal["deployed", "not-deployed"]
    entries_paused: bool
    read_at: ReadAt
    stale: Stale
    markets: list[MarketBody]
    next_before: Annotated[str | None, Meta(description="`before` for the next page; null on the last page.")]


class ResolutionBody(Body):
    """How a market was resolved. `strikeRound` and `finalRound` are null if no round was needed: the oracle stayed
    paused, or the market was not settled in time."""

    outcome: OutcomeName
    reason: VoidReasonName | None
    detail: str
    strike_round: RoundId | None
    final_round: RoundId | None
    strike: RoundBody | None
    final: RoundBody | None
    tx: HexHash
    at: UnixSeconds


class HeadBody(Body):
    block_number: Integer
    l1_block_number: Integer
    timestamp: UnixSeconds


class BookBody(Body):
    """One outcome's book: amounts in USDG units, `acc` in units promised per unit of principal, times 1e18."""

    principal: Integer
    acc: Integer
    capacity: Integer
    vested: Integer
    demand: Integer
    live: Integer


class FinderBody(Body):
    """The two rounds that the round finder proved, and the outcome that they imply."""

    ok: bool
    strike_round: RoundId | None
    final_round: RoundId | None
    strike: RoundBody | None
    final: RoundBody | None
    expected: OutcomeName | None
    problem: str | None


class PreviewBody(Body):
    """The resolver's preview; zeros if it has no reading."""

    status: Annotated[int, Meta(ge=0, le=7)]
    name: PreviewName
    strike_round: RoundId
    strike_answer: Answer8
    strike_at: int
    final_round: RoundId
    final_answer: Answer8
    final_at: int


class MarketDetailBody(Body):
    """One market with its books and every position in order of entry."""

    market: MarketBody
    headroom: UpDown
    positions: list[PositionBody]
    resolution: Annotated[ResolutionBody | None, Meta(description="Null until settled.")]
    head: HeadBody
    entries_paused: bool
    vintage_block: Annotated[str | None, Meta(description="The open batch's Ethereum block.")]
    kappa: Integer
    books: Annotated[list[BookBody], Meta(min_length=2, max_length=2, description="UP, then DOWN.")]
    finder: Annotated[FinderBody | None, Meta(description="Null until after the bell.")]
    preview: Annotated[PreviewBody | None, Meta(description="Null until after the bell.")]
    activity: Annotated[bool, Meta(description="True if entry times and links are known from logs.")]
    read_at: ReadAt
    stale: Stale
