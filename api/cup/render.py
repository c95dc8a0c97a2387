"""Answers as they go out: amounts as exact JSON numbers, times as ISO-8601 in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from api.http.body import Json
from core.agent.book import Book
from core.cup import betting, wheel
from core.cup.amounts import number_of, percent
from core.cup.betting import BetReceipt, PlacedBet, RoundTotals
from core.cup.board import Board
from core.cup.books import PaperMarket
from core.cup.outlook import PaperCaution
from core.cup.rounds import RouletteRound
from core.cup.trading import PaperReceipt
from core.cup.wallets import PaperPosition, Summary
from core.hexadecimal import hex_of
from core.iso import iso_of
from core.money import json_number, json_ratio_down, parts_of


def _times(market: PaperMarket | PaperPosition) -> Json:
    """When trades end, what is measured when, and when it is settled; wherever a market is shown."""
    after = market.settles_after
    return {
        "deadlineAt": iso_of(market.closes_at),
        "startAt": None if market.start_at is None else iso_of(market.start_at),
        "endsAt": iso_of(market.ends_at),
        "settlesAfter": None if after is None else iso_of(after),
    }


def wallet_body(wallet: str, summary: Summary) -> Json:
    return {
        "walletAddress": wallet,
        "balancePaper": number_of(summary.balance_cents),
        "realizedPnlPaper": number_of(summary.realized_cents),
        "openCount": summary.open_count,
        "positions": [
            {
                "marketId": each.market_id,
                "slug": each.slug,
                "side": each.side,
                "sideLabel": each.label,
                "costPaper": number_of(each.cost_cents),
                "shares": number_of(each.shares_cents),
                "status": each.status,
                "realizedPnlPaper": number_of(each.realized_cents),
                "projectedPayoutPaper": number_of(each.projected_cents),
                **_times(each),
            }
            for each in summary.positions
        ],
    }


def outcomes_body(market: PaperMarket) -> list[Json]:
    return [
        {**side.body(), "impliedPct": json_number(price, 2)}
        for side, price in zip(market.sides, _prices(market.book), strict=True)
    ]


def _prices(book: Book) -> list[int]:
    """Of each outcome in hundredths of a percent: together they are 100%."""
    return parts_of(10_000, [book.weight(at) for at in range(book.outcomes)])


def market_body(market: PaperMarket) -> Json:
    """A market that takes trades: it is listed."""
    assert market.settles_after is not None
    book = market.book
    # On an N-way market the leading outcome stands for yes.
    shown = 0 if market.binary else max(range(book.outcomes), key=book.weight)
    yes = _prices(book)[shown]
    return {
        "slug": market.slug,
        "marketId": market.market_id,
        "question": market.question,
        "shortTitle": market.short_title,
        "tokenSymbol": market.token_symbol,
        "binary": market.binary,
        "direction": market.direction,
        "yesCents": json_number(yes, 2),
        "noCents": json_number(10_000 - yes, 2),
        "poolPaper": number_of(book.net_pool),
        "tradeCount": market.trades,
        **_times(market),
        "outcomes": outcomes_body(market),
    }


def quote_body(market: PaperMarket, receipt: PaperReceipt, warnings: Sequence[PaperCaution]) -> Json:
    """A share's part of the payout is rounded down."""
    return {
        "slug": market.slug,
        "marketId": market.market_id,
        **_times(market),
        "side": receipt.side,
        "sizePaper": number_of(receipt.size_cents),
        "shares": number_of(receipt.shares_cents),
        "projectedPayoutPaper": number_of(receipt.projected_cents),
        "projectedPayoutPerSharePaper": json_ratio_down(receipt.projected_cents, receipt.shares_cents, 6),
        "warnings": [each.body() for each in warnings],
        "poolPaper": number_of(market.book.net_pool),
        "outcomes": outcomes_body(market),
    }


def trade_receipt(receipt: PaperReceipt, warnings: Sequence[PaperCaution] = ()) -> Json:
    return {
        "simulated": receipt.trade_id is None,
        "tradeId": receipt.trade_id,
        "marketId": receipt.market.market_id,
        "slug": receipt.market.slug,
        **_times(receipt.market),
        "side": receipt.side,
        "sizePaper": number_of(receipt.size_cents),
        "shares": number_of(receipt.shares_cents),
        "balancePaper": None if receipt.balance_cents is None else number_of(receipt.balance_cents),
        "projectedPayoutPaper": number_of(receipt.projected_cents),
        "poolPaper": number_of(receipt.pool_cents),
        "warnings": [each.body() for each in warnings],
        "replay": receipt.replay,
    }


def board_entries(board: Board, limit: int) -> list[Json]:
    return [
        {"wallet": each.wallet, "score": number_of(each.score_cents), "isAgent": each.is_agent}
        for each in board.entries[:limit]
    ]


def _wheel_markets(crowd: RoundTotals) -> list[Json]:
    shown = []
    for market in wheel.MARKETS:
        pool = crowd.market_pool(market)
        shown.append(
            {
                "id": market.id,
                "question": market.question,
                "short": market.short,
                "poolPaper": number_of(pool),
                "outcomes": [
                    {
                        "key": outcome.key,
                        "label": outcome.label,
                        "truePct": json_number(outcome.true_pct_hundredths, 2),
                        "poolPaper": number_of(crowd.pools.get(outcome.key, 0)),
                        "crowdPct": percent(crowd.pools.get(outcome.key, 0), pool),
                    }
                    for outcome in market.outcomes
                ],
            }
        )
    return shown


def round_body(live: RouletteRound, crowd: RoundTotals, history: Sequence[RouletteRound], now: datetime) -> Json:
    """The live round; its seed only once it is settled."""
    revealed = live.settled_at is not None
    left = max(0, round((live.closes_at - now).total_seconds() * 10))
    return {
        "roundNo": live.round_no,
        "phase": live.phase(now),
        "secondsToClose": json_number(left, 1),
        "opensAt": iso_of(live.opens_at),
        "closesAt": iso_of(live.closes_at),
        "endsAt": iso_of(live.ends_at),
        "pocket": live.pocket,
        "commitment": hex_of(live.commitment),
        "betsHash": None if live.bets_hash is None else hex_of(live.bets_hash),
        "seed": hex_of(live.seed) if revealed else None,
        "chainId": live.chain_id,
        "beaconAfter": live.beacon_after,
        "beaconBlock": live.beacon_number,
        "beaconHash": None if live.beacon_hash is None else hex_of(live.beacon_hash),
        "bounds": betting.bounds(),
        "bettors": crowd.bettors,
        "stakedPaper": number_of(crowd.staked_cents),
        "markets": _wheel_markets(crowd),
        "history": [_spin(each) for each in history],
    }


def _spin(past: RouletteRound) -> Json:
    assert past.beacon_hash is not None
    assert past.settled_at is not None
    assert past.bets_hash is not None
    return {
        "roundNo": past.round_no,
        "pocket": past.pocket,
        "commitment": hex_of(past.commitment),
        "betsHash": hex_of(past.bets_hash),
        "seed": hex_of(past.seed),
        "beaconBlock": past.beacon_number,
        "beaconHash": hex_of(past.beacon_hash),
        "settledAt": iso_of(past.settled_at),
    }


def bets_body(bets: Sequence[PlacedBet]) -> list[Json]:
    return [
        {
            "betKey": each.bet_key,
            "stakePaper": number_of(each.stake_cents),
            "status": each.status,
            "payoutPaper": number_of(each.paid_cents),
        }
        for each in bets
    ]


def bet_receipt(receipt: BetReceipt) -> Json:
    return {
        "simulated": False,
        "roundNo": receipt.round_no,
        "betKey": receipt.bet_key,
        "stakePaper": number_of(receipt.stake_cents),
        "balancePaper": number_of(receipt.balance_cents),
        "replay": receipt.replay,
    }


def simulated_bet(
    live: RouletteRound,
    crowd: RoundTotals,
    bet_key: str,
    stake_cents: int,
    balance_cents: int | None,
    warnings: Sequence[PaperCaution],
) -> Json:
    """What the pool says of this stake. A win would pay the whole pool, this stake in it, by share of the key."""
    market, outcome = wheel.MARKET_OF_KEY[bet_key], wheel.OUTCOMES[bet_key]
    pool, on_key = crowd.market_pool(market), crowd.pools.get(bet_key, 0)
    after, key_after = pool + stake_cents, on_key + stake_cents
    return {
        "simulated": True,
        "roundNo": live.round_no,
        "betKey": bet_key,
        "stakePaper": number_of(stake_cents),
        "balancePaper": None if balance_cents is None else number_of(balance_cents),
        "replay": False,
        "warnings": [each.body() for each in warnings],
        "truePct": json_number(outcome.true_pct_hundredths, 2),
        "crowdPct": percent(on_key, pool),
        "crowdPctAfter": percent(key_after, after),
        "poolPaper": number_of(pool),
        "poolPaperAfter": number_of(after),
        "payIfWinPaper": number_of(stake_cents * after // key_after),  # down, as it would be paid
    }
