"""Answers of the tournament, as the documentation describes them.

Nothing makes one of these: `render.py` builds each answer as a dictionary. Tests hold the two together: they read
answers by these models (`tests/integration/test_cup_rest.py`, `test_cup_roulette.py`), and hold what generated calls
are answered to the schema that is made of them (`test_cup_schema.py`). Decision 14 says why.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Number = int | float
Paper = Annotated[Number, Field(description="pUSDC.")]


def _further_fields(schema: dict[str, Any]) -> None:
    """Published, an answer may have more fields: they are added, and whoever holds one to its schema must not be thrown
    by them."""
    schema.pop("additionalProperties", None)


class _Body(BaseModel):
    """An answer's body, or a part of one, with names in camel case on the wire."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        extra="forbid",  # by the tests, which hold every answer to these
        strict=True,
        json_schema_extra=_further_fields,
    )


class Meta(_Body):
    name: str
    version: Literal["service-cup-api-v1"]
    currency: Literal["pUSDC"]
    paper: Literal[True]
    generated_at: str
    docs_url: str


class CupError(BaseModel):
    """The body of every error: a stable code and a sentence. Some carry more fields, such as `validSides` or
    `balance`."""

    model_config = ConfigDict(extra="allow")

    error: Annotated[str, Field(examples=["market_closed"])]
    message: str


class Answered(_Body):
    meta: Meta


class ClaimBody(Answered):
    wallet_address: str
    balance_paper: Paper
    minted: bool


class MarketTimes(_Body):
    """A market's times, wherever one is shown."""

    deadline_at: Annotated[str, Field(description="Trades end here, as stakes on the listed market do.")]
    start_at: Annotated[str | None, Field(description="Of an up/down round: what its end is compared with.")]
    ends_at: Annotated[str, Field(description="The moment that decides.")]
    settles_after: Annotated[
        str | None,
        Field(
            description="When the listed market's result counts; what is owed here is paid once no reorganization can "
            "change it. null only while the chain, reorganized, has the listing no longer."
        ),
    ]


class PositionBody(MarketTimes):
    market_id: str
    slug: str
    side: str
    side_label: str
    cost_paper: Paper
    shares: Number
    status: Literal["open", "won", "lost", "refunded"]
    realized_pnl_paper: Paper
    projected_payout_paper: Annotated[Paper, Field(description="If its side won now; once settled, what it was paid.")]


class WalletBody(Answered):
    wallet_address: str
    balance_paper: Paper
    realized_pnl_paper: Paper
    open_count: int
    positions: list[PositionBody]


class OutcomeBody(_Body):
    key: str
    label: str
    short_label: str
    implied_pct: Number


class MarketBody(MarketTimes):
    slug: str
    market_id: str
    question: str
    short_title: str
    token_symbol: str
    binary: bool
    direction: bool
    yes_cents: Number
    no_cents: Number
    pool_paper: Paper
    trade_count: int
    settles_after: Annotated[
        str,
        Field(
            description="When the listed market's result counts; this one is paid once no reorganization can change it."
        ),
    ]
    outcomes: list[OutcomeBody]


class MarketsBody(Answered):
    count: int
    markets: list[MarketBody]


class WarningBody(_Body):
    code: Literal[
        "first_on_its_side",
        "closes_soon",
        "insufficient_funds",
        "cup_agent_trades_halted",
        "stake_out_of_bounds",
        "bet_conflict",
    ]
    message: str


class QuoteBody(Answered, MarketTimes):
    slug: str
    market_id: str
    side: str
    size_paper: Paper
    shares: Number
    projected_payout_paper: Annotated[Paper, Field(description="If its side won with this trade in the book.")]
    projected_payout_per_share_paper: Annotated[Paper, Field(description="Rounded down.")]
    warnings: Annotated[list[WarningBody], Field(description="What is allowed but unwise about it.")]
    pool_paper: Paper
    outcomes: list[OutcomeBody]


class TradeReceipt(MarketTimes):
    simulated: bool
    trade_id: str | None
    market_id: str
    slug: str
    side: str
    size_paper: Paper
    shares: Number
    balance_paper: Annotated[Paper | None, Field(description="null only in a simulation without a wallet.")]
    projected_payout_paper: Paper
    pool_paper: Annotated[Paper, Field(description="With this trade in it.")]
    warnings: Annotated[
        list[WarningBody],
        Field(description="Of a simulation: what is unwise about it, and what the wallet would be refused for."),
    ]
    replay: bool


class TradeBody(Answered):
    receipt: TradeReceipt


class BoardEntry(_Body):
    wallet: str
    score: Paper
    is_agent: bool


class You(_Body):
    rank: Annotated[int | None, Field(description="From 1; null for a wallet that has realized nothing yet.")]
    total: int


class BoardBody(Answered):
    entries: list[BoardEntry]
    total: int
    week: str | None
    agents: bool
    rule: Annotated[str, Field(description="What of a profit counts in `score`.")]
    you: You | None = None


class GuideStep(_Body):
    step: int
    title: str
    text: str
    request: dict[str, Any] | None = None
    message: str | None = None


class GuideBody(Answered):
    title: str
    base_url: str
    mcp_url: str
    export_url: str
    steps: list[GuideStep]
    signing: dict[str, Any]
    limits: dict[str, Any]
    errors: dict[str, str]
    roulette: dict[str, Any]


class BoundsBody(_Body):
    min_bet: Paper
    max_bet: Paper
    max_round_total: Paper


class WheelOutcomeBody(_Body):
    key: str
    label: str
    true_pct: Number
    pool_paper: Paper
    crowd_pct: Number


class WheelMarketBody(_Body):
    id: str
    question: str
    short: str
    pool_paper: Paper
    outcomes: list[WheelOutcomeBody]


class SpinBody(_Body):
    round_no: int
    pocket: int
    commitment: str
    bets_hash: str
    seed: str
    beacon_block: int
    beacon_hash: str
    settled_at: str


class PlacedBetBody(_Body):
    bet_key: str
    stake_paper: Paper
    status: Literal["open", "won", "lost", "refunded"]
    payout_paper: Paper


class RouletteRoundBody(Answered):
    round_no: int
    phase: Literal["bet", "spin", "settled"]
    seconds_to_close: Number
    opens_at: str
    closes_at: str
    ends_at: str
    pocket: int | None
    commitment: str
    bets_hash: Annotated[str | None, Field(description="Of the round's bets, published at its close. Null until then.")]
    seed: str | None
    chain_id: int
    beacon_after: Annotated[int, Field(description="The beacon is the first block at or after this Unix second.")]
    beacon_block: int | None
    beacon_hash: str | None
    bounds: BoundsBody
    bettors: int
    staked_paper: Paper
    markets: list[WheelMarketBody]
    history: list[SpinBody]
    bets: Annotated[list[PlacedBetBody] | None, Field(description="Present when a wallet was passed.")] = None


class BetReceiptBody(_Body):
    simulated: bool
    round_no: int
    bet_key: str
    stake_paper: Paper
    balance_paper: Paper | None
    replay: bool
    warnings: Annotated[
        list[WarningBody] | None,
        Field(description="Of a simulation: what the wallet would be refused for now."),
    ] = None
    true_pct: Number | None = None
    crowd_pct: Number | None = None
    crowd_pct_after: Number | None = None
    pool_paper: Paper | None = None
    pool_paper_after: Paper | None = None
    pay_if_win_paper: Annotated[
        Paper | None, Field(description="What a win would pay with this stake in the pool and nobody else's after it.")
    ] = None


class BetBody(Answered):
    receipt: BetReceiptBody


class EnrolBody(Answered):
    wallet_address: str
    enrolled: bool
    created: bool
    trading_halted: bool
