"""The tournament's response bodies and the functions that build them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec import Meta as Described

from api.operations import Body
from core.agent.book import Book
from core.cup import PaperStatus, betting, number_of, percent, wheel
from core.cup.betting import BetReceipt, PlacedBet, RoundTotals
from core.cup.board import Board
from core.cup.books import PaperMarket, PaperPosition, Summary
from core.cup.rounds import RouletteRound, RoundPhase
from core.cup.trading import PaperReceipt
from core.hexadecimal import hex_of
from core.iso import iso_datetime
from core.money import json_number, json_ratio_down, parts_of

VERSION: Final = "service-cup-api-v1"
CLOSES_SOON: Final = timedelta(seconds=120)
Paper = Annotated[Decimal, Described(description="pUSDC.")]
B = TypeVar("B", bound=Body)


_SHOWN: Final[dict[type, Callable[[Any], str]]] = {bytes: hex_of, datetime: iso_datetime}


def shown(body: type[B], source: object, **more: Any) -> B:
    """Build a body from `more` and, for the other fields, the attributes of `source`: the field `size_paper` from
    `size_cents`, all others from the attribute of the same name. Bytes become hex, moments ISO-8601."""
    for name, attribute in _attributes(body):
        if name not in more:
            value = getattr(source, attribute)
            if attribute != name and value is not None:
                value = number_of(value)
            show = _SHOWN.get(type(value))
            more[name] = value if show is None else show(value)
    return body(**more)


@cache
def _attributes(body: type[Body]) -> list[tuple[str, str]]:
    required = [each.name for each in msgspec.structs.fields(body) if each.required]
    return [(name, name.removesuffix("_paper") + "_cents" if name.endswith("_paper") else name) for name in required]


class CupError(Body):
    """The body of every error: a stable code and a message. Some have more fields, such as `validSides` or
    `balance`."""

    error: Annotated[str, Described(examples=["market_closed"])]
    message: str


class Meta(Body):
    name: str
    version: Literal["service-cup-api-v1"]
    currency: Literal["pUSDC"]
    paper: Annotated[bool, Described(extra_json_schema={"const": True})]
    generated_at: str
    docs_url: str


class Answer(Body):
    meta: Meta


class ClaimBody(Answer):
    wallet_address: str
    balance_paper: Paper
    minted: bool


class EnrolBody(Answer):
    wallet_address: str
    enrolled: bool
    created: bool
    trading_halted: bool


# ---------------------------------------------------------------- markets


class MarketTimes(Body):
    deadline_at: Annotated[str, Described(description="Trading ends at this time, as on the real market.")]
    start_at: Annotated[str | None, Described(description="For an up/down round: when the first reading is taken.")]
    ends_at: Annotated[str, Described(description="When the deciding reading is taken.")]
    settles_after: Annotated[
        str | None,
        Described(
            description="When the real market's result counts; payouts follow when no reorganization can change it. "
            "null only while a reorganization has removed the real market from the chain."
        ),
    ]


def _times(market: PaperMarket | PaperPosition) -> dict[str, Any]:
    after = market.settles_after
    return {
        "deadline_at": iso_datetime(market.closes_at),
        "start_at": None if market.start_at is None else iso_datetime(market.start_at),
        "ends_at": iso_datetime(market.ends_at),
        "settles_after": None if after is None else iso_datetime(after),
    }


class OutcomeBody(Body):
    key: str
    label: str
    short_label: str
    implied_pct: Decimal


def _outcomes(market: PaperMarket) -> list[OutcomeBody]:
    return [
        OutcomeBody(key=side.key, label=side.label, short_label=side.short_label, implied_pct=json_number(price, 2))
        for side, price in zip(market.sides, _prices(market.book), strict=True)
    ]


def _prices(book: Book) -> list[int]:
    """Return the price of each outcome in hundredths of a percent. The prices add up to 100%."""
    return parts_of(10_000, [book.weight(at) for at in range(book.outcomes)])


class MarketBody(MarketTimes):
    slug: str
    market_id: str
    question: str
    short_title: str
    token_symbol: str
    binary: bool
    direction: bool
    yes_cents: Decimal
    no_cents: Decimal
    pool_paper: Paper
    trade_count: int
    settles_after: str  # an open market is always listed
    outcomes: list[OutcomeBody]


class MarketsBody(Answer):
    count: int
    markets: list[MarketBody]


def market_body(market: PaperMarket) -> MarketBody:
    book = market.book
    # On an N-way market the leading outcome stands for yes.
    yes = _prices(book)[0 if market.binary else max(range(book.outcomes), key=book.weight)]
    return shown(
        MarketBody,
        market,
        **_times(market),
        yes_cents=json_number(yes, 2),
        no_cents=json_number(10_000 - yes, 2),
        pool_paper=number_of(book.net_pool),
        trade_count=market.trades,
        outcomes=_outcomes(market),
    )


# The agent surface's warnings that apply here (paper pays no fee, so a winning trade never gets less than it cost), and
# the codes of refusals that a real trade or bet would get.
WarningCode = Literal[
    "first_on_its_side",
    "closes_soon",
    "insufficient_funds",
    "cup_agent_trades_halted",
    "stake_out_of_bounds",
    "bet_conflict",
]


class WarningBody(Body):
    code: WarningCode
    message: str


def trade_warnings(market: PaperMarket, outcome: int, now: datetime) -> list[WarningBody]:
    """Return warnings about a trade that is allowed but unwise."""
    warnings = []
    if market.book.net[outcome] == 0:
        message = (
            f"No one has bet on {market.sides[outcome].label} yet. If no one bets on any other outcome, all trades are "
            "refunded."
        )
        warnings.append(WarningBody(code="first_on_its_side", message=message))
    left = market.closes_at - now
    if timedelta() < left <= CLOSES_SOON:
        message = f"Trading ends in {int(left.total_seconds())} seconds."
        warnings.append(WarningBody(code="closes_soon", message=message))
    return warnings


class QuoteBody(MarketTimes):
    meta: Meta
    slug: str
    market_id: str
    side: str
    size_paper: Paper
    shares: Decimal
    projected_payout_paper: Annotated[
        Decimal, Described(description="The payout if its side wins, with this trade in the book.")
    ]
    projected_payout_per_share_paper: Annotated[Decimal, Described(description="Rounded down.")]
    warnings: Annotated[
        list[WarningBody], Described(description="Reasons to think again; they do not block the trade.")
    ]
    pool_paper: Paper
    outcomes: list[OutcomeBody]


def quote_body(meta: Meta, receipt: PaperReceipt, warnings: list[WarningBody]) -> QuoteBody:
    market, trade = receipt.market, receipt.trade
    return shown(
        QuoteBody,
        trade,
        **_times(market),
        meta=meta,
        market_id=market.market_id,
        side=receipt.side,
        shares=number_of(trade.shares_cents),
        projected_payout_per_share_paper=json_ratio_down(trade.projected_payout_cents, trade.shares_cents, 6),
        warnings=warnings,
        pool_paper=number_of(market.book.net_pool),
        outcomes=_outcomes(market),
    )


class TradeReceipt(MarketTimes):
    simulated: bool
    trade_id: str | None
    market_id: str
    slug: str
    side: str
    size_paper: Paper
    shares: Decimal
    balance_paper: Annotated[
        Decimal | None, Described(description="null only in a simulation without a wallet address.")
    ]
    projected_payout_paper: Paper
    pool_paper: Annotated[Decimal, Described(description="The pool with this trade in it.")]
    warnings: Annotated[
        list[WarningBody],
        Described(description="In a simulation: reasons to think again, and why a real trade would be refused."),
    ]
    replay: bool


class TradeBody(Answer):
    receipt: TradeReceipt


def trade_receipt(receipt: PaperReceipt, warnings: list[WarningBody]) -> TradeReceipt:
    return shown(
        TradeReceipt,
        receipt.trade,
        **_times(receipt.market),
        simulated=receipt.trade_id is None,
        trade_id=receipt.trade_id,
        market_id=receipt.market.market_id,
        side=receipt.side,
        shares=number_of(receipt.trade.shares_cents),
        warnings=warnings,
        replay=receipt.replay,
    )


# ---------------------------------------------------------------- wallets and boards


class PositionBody(MarketTimes):
    market_id: str
    slug: str
    side: str
    side_label: str
    cost_paper: Paper
    shares: Decimal
    status: PaperStatus
    realized_pnl_paper: Paper
    projected_payout_paper: Annotated[
        Decimal, Described(description="The payout if its side won now; after settlement, the amount paid.")
    ]


class WalletBody(Answer):
    wallet_address: str
    balance_paper: Paper
    realized_pnl_paper: Paper
    open_count: int
    positions: list[PositionBody]


def wallet_body(meta: Meta, wallet: str, summary: Summary) -> WalletBody:
    positions = summary.positions
    return shown(
        WalletBody,
        summary,
        meta=meta,
        wallet_address=wallet,
        open_count=sum(each.status == "open" for each in positions),
        positions=[
            shown(PositionBody, each, **_times(each), shares=number_of(each.shares_cents)) for each in positions
        ],
    )


class BoardEntry(Body):
    wallet: str
    score: Paper
    is_agent: bool


def board_entries(board: Board, limit: int) -> list[BoardEntry]:
    return [shown(BoardEntry, each, score=number_of(each.score_cents)) for each in board.entries[:limit]]


class You(Body):
    rank: Annotated[int | None, Described(description="From 1; null for a wallet without a settled trade or bet.")]
    total: int


class BoardBody(Answer):
    entries: list[BoardEntry]
    total: int
    week: str | None
    agents: bool
    rule: Annotated[str, Described(description="How much of a profit counts in `score`.")]
    you: You | UnsetType = UNSET


# ---------------------------------------------------------------- roulette


class BoundsBody(Body):
    min_bet: Paper
    max_bet: Paper
    max_round_total: Paper


class WheelOutcomeBody(Body):
    key: str
    label: str
    true_pct: Decimal
    pool_paper: Paper
    crowd_pct: Decimal


class WheelMarketBody(Body):
    id: str
    question: str
    short: str
    pool_paper: Paper
    outcomes: list[WheelOutcomeBody]


def _wheel_market(market: wheel.WheelMarket, round_totals: RoundTotals) -> WheelMarketBody:
    pool = round_totals.market_pool(market)
    return WheelMarketBody(
        id=market.id,
        question=market.question,
        short=market.short,
        pool_paper=number_of(pool),
        outcomes=[
            WheelOutcomeBody(
                key=outcome.key,
                label=outcome.label,
                true_pct=json_number(outcome.true_pct_hundredths, 2),
                pool_paper=number_of(round_totals.pools.get(outcome.key, 0)),
                crowd_pct=percent(round_totals.pools.get(outcome.key, 0), pool),
            )
            for outcome in market.outcomes
        ],
    )


class SpinBody(Body):
    round_no: int
    pocket: int
    commitment: str
    bets_hash: str
    seed: str
    beacon_block: int
    beacon_hash: str
    settled_at: str


class PlacedBetBody(Body):
    bet_key: str
    stake_paper: Paper
    status: PaperStatus
    payout_paper: Paper


class RouletteRoundBody(Answer):
    round_no: int
    phase: RoundPhase
    seconds_to_close: Decimal
    opens_at: str
    closes_at: str
    ends_at: str
    pocket: int | None
    commitment: str
    bets_hash: Annotated[
        str | None, Described(description="The hash of the round's bets, published at its close; null before.")
    ]
    seed: str | None
    chain_id: int
    beacon_after: Annotated[int, Described(description="The beacon is the first block at or after this Unix second.")]
    beacon_block: int | None
    beacon_hash: str | None
    bounds: BoundsBody
    bettors: int
    staked_paper: Paper
    markets: list[WheelMarketBody]
    history: list[SpinBody]
    bets: Annotated[list[PlacedBetBody] | UnsetType, Described(description="The bets of the wallet in the query.")] = (
        UNSET
    )


def round_body(
    meta: Meta,
    live: RouletteRound,
    round_totals: RoundTotals,
    history: Sequence[RouletteRound],
    bets: Sequence[PlacedBet] | None,
    now: datetime,
) -> RouletteRoundBody:
    """Build the body of the live round, with the queried wallet's bets, if any. The round's seed is null until the
    round is settled."""
    left = max(0, round((live.closes_at - now).total_seconds() * 10))
    return shown(
        RouletteRoundBody,
        live,
        meta=meta,
        phase=live.phase(now),
        seconds_to_close=json_number(left, 1),
        seed=None if live.settled_at is None else hex_of(live.seed),
        beacon_block=live.beacon_number,
        bounds=msgspec.convert(betting.bounds(), BoundsBody),
        bettors=len(round_totals.bets),
        staked_paper=number_of(sum(round_totals.pools.values())),
        markets=[_wheel_market(each, round_totals) for each in wheel.MARKETS],
        history=[shown(SpinBody, each, beacon_block=each.beacon_number) for each in history],
        bets=UNSET if bets is None else [shown(PlacedBetBody, each) for each in bets],
    )


class BetReceiptBody(Body):
    """A bet's receipt. The last seven fields are present only in a simulation."""

    simulated: bool
    round_no: int
    bet_key: str
    stake_paper: Paper
    balance_paper: Paper | None
    replay: bool
    warnings: Annotated[
        list[WarningBody] | UnsetType, Described(description="Why a real bet of the wallet would be refused now.")
    ] = UNSET
    true_pct: Decimal | UnsetType = UNSET
    crowd_pct: Decimal | UnsetType = UNSET
    crowd_pct_after: Decimal | UnsetType = UNSET
    pool_paper: Paper | UnsetType = UNSET
    pool_paper_after: Paper | UnsetType = UNSET
    pay_if_win_paper: Annotated[
        Decimal | UnsetType,
        Described(description="The payout of a win with this stake in the pool and no later stakes."),
    ] = UNSET


class BetBody(Answer):
    receipt: BetReceiptBody


def bet_receipt(receipt: BetReceipt) -> BetReceiptBody:
    return shown(BetReceiptBody, receipt, simulated=False)


def simulated_bet(
    live: RouletteRound,
    round_totals: RoundTotals,
    bet_key: str,
    stake_cents: int,
    balance_cents: int | None,
    warnings: list[WarningBody],
) -> BetReceiptBody:
    """Build the receipt of a simulated bet. If its key wins, the bet is paid a share of the whole pool, in proportion
    to all stakes on the key. Both the pool and those stakes include the simulated one."""
    market, outcome = wheel.MARKET_OF_KEY[bet_key], wheel.OUTCOMES[bet_key]
    pool, on_key = round_totals.market_pool(market), round_totals.pools.get(bet_key, 0)
    after, key_after = pool + stake_cents, on_key + stake_cents
    return BetReceiptBody(
        simulated=True,
        round_no=live.round_no,
        bet_key=bet_key,
        stake_paper=number_of(stake_cents),
        balance_paper=None if balance_cents is None else number_of(balance_cents),
        replay=False,
        warnings=warnings,
        true_pct=json_number(outcome.true_pct_hundredths, 2),
        crowd_pct=percent(on_key, pool),
        crowd_pct_after=percent(key_after, after),
        pool_paper=number_of(pool),
        pool_paper_after=number_of(after),
        pay_if_win_paper=number_of(stake_cents * after // key_after),  # rounded down, as it would be paid
    )


# ---------------------------------------------------------------- the guide


class GuideStep(Body):
    step: int
    title: str
    text: str
    request: dict[str, Any] | UnsetType = UNSET
    message: str | UnsetType = UNSET


class GuideBody(Answer):
    title: str
    base_url: str
    mcp_url: str
    export_url: str
    steps: list[GuideStep]
    signing: dict[str, Any]
    limits: dict[str, Any]
    errors: dict[str, str]
    roulette: dict[str, Any]
