"""A wallet's positions: how each stands, and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from api.agent import outlook
from api.agent.facts import Holding, ListedMarket, Stake
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


def position(market: ListedMarket, stake: Stake, links: Links) -> Json:
    """Return the body. One trade is one position."""
    status, ahead, worth = _standing(market, stake)
    if stake.outcome is None:
        now = json_number(0)
    elif status in (WON, LOST):
        now = json_number(100, 0) if status == WON else json_number(0)
    else:
        now = prices(market.book)[stake.outcome]
    side = None if stake.outcome is None else market.outcomes[stake.outcome]
    return {
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
        "pnlUsd": usd(worth - stake.amount),
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


def summary(holdings: Iterable[Holding], markets: Mapping[bytes, ListedMarket]) -> Json:
    """Return the sums over a wallet's positions. Open ones on one outcome are valued together, rounded down once."""
    live = over = staked = profit = 0
    for each in holdings:
        if each.market_key is None:
            worth = each.worth
            over += each.stakes
        elif (market := markets.get(each.market_key)) is not None:
            payout = market.book.projected(each.outcome, each.amount, each.shares)
            worth = payout * market.book.price(each.outcome) // WAD  # down
            live += each.stakes
        else:
            continue  # listed in a block read after the markets were
        staked += each.amount
        profit += worth - each.amount
    return {"openCount": live, "resolvedCount": over, "totalStakedUsd": usd(staked), "totalPnlUsd": usd(profit)}
