"""A wallet's positions: how each stands, and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from api.agent import outlook
from api.agent.facts import ListedMarket, Stake
from api.agent.links import Links
from api.agent.outlook import Outlook
from api.agent.render.markets import times
from api.agent.render.numbers import average_cents, prices, usd
from api.http.body import Json
from core.agent.fixed import WAD
from core.hexadecimal import hex_of
from core.iso import iso
from core.money import json_number

WON, LOST, REFUNDED, LIVE = "resolved-won", "resolved-lost", "resolved-refunded", "open"


def position_status(market: ListedMarket, stake: Stake) -> str:
    if stake.outcome is None:
        return REFUNDED
    if market.ending is None:
        return LIVE
    if market.refunded():
        return REFUNDED
    return WON if stake.outcome == market.winner else LOST


def position(market: ListedMarket, stake: Stake, links: Links) -> tuple[Json, str, int]:
    """The body, its status, and profit or loss in units. One trade is one position."""
    status, ahead, worth = _standing(market, stake)
    if stake.outcome is None:
        now = json_number(0)
    elif status in (WON, LOST):
        now = json_number(100, 0) if status == WON else json_number(0)
    else:
        now = prices(market.book)[stake.outcome]
    pnl = worth - stake.amount
    side = None if stake.outcome is None else market.outcomes[stake.outcome]
    body = {
        "marketId": market.id,
        "slug": market.slug,
        "question": market.words.question,
        **times(market),
        "side": "refund" if side is None else side.key,
        "outcomeLabel": "Refund" if side is None else side.label,
        "shares": usd(stake.shares),
        "stakedUsd": usd(stake.amount),
        "avgEntryCents": average_cents(stake.net, stake.shares),
        "currentCents": now,
        "pnlUsd": usd(pnl),
        "maxPayoutUsd": usd(ahead.payout),
        "payoutUsd": None if status == LIVE else usd(worth),
        **ahead.body(),
        "status": status,
        "appUrl": links.app(market),
        "proofUrl": None if side is None else links.proof(stake.bet_hash),
        "filledAt": iso(stake.at),
        "payoutTx": None if stake.paid_tx is None else hex_of(stake.paid_tx),
        "tradeId": hex_of(stake.bet_hash),
    }
    return body, status, pnl


def _standing(market: ListedMarket, stake: Stake) -> tuple[str, Outlook, int]:
    """Its status, what it would be or is paid, and what it is worth in units."""
    status = position_status(market, stake)
    if stake.outcome is None:  # a payment that came too late: given back whole, never in the book
        return status, Outlook(stake.amount, 0), stake.amount
    ahead = outlook.of_position(market, stake, stake.outcome)
    if status == LIVE:
        return status, ahead, ahead.payout * market.book.price(stake.outcome) // WAD  # down
    worth = market.book.owed(market.winner, stake.outcome, stake.amount, stake.shares)
    return status, Outlook(worth, stake.shares) if status == REFUNDED else ahead, worth


class PositionSums:
    """The sums over a wallet's positions."""

    def __init__(self) -> None:
        self._live = self._over = self._staked = self._profit = 0

    def add(self, stakes: Iterable[Stake], markets: Mapping[bytes, ListedMarket]) -> None:
        for each in stakes:
            market = markets.get(each.market_key)
            if market is None:
                continue
            status, _, worth = _standing(market, each)
            self._live += status == LIVE
            self._over += status != LIVE
            self._staked += each.amount
            self._profit += worth - each.amount

    def body(self) -> Json:
        return {
            "openCount": self._live,
            "resolvedCount": self._over,
            "totalStakedUsd": usd(self._staked),
            "totalPnlUsd": usd(self._profit),
        }
