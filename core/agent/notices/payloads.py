"""Event payloads as JSON text. Amounts are exact numbers of USD from integers of 6 decimals; averages round down. The
keys are documented in docs/events.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.agent.bet import ref_text
from core.agent.notices.markets import NoticeMarket
from core.agent.words import FEED_DECIMALS
from core.contracts.events.agent import Staked
from core.contracts.statuses import MarketKind
from core.hexadecimal import hex_of
from core.money import json_number, json_ratio_down, to_json


def text(payload: Mapping[str, Any]) -> str:
    return to_json(payload).decode()


def correction_payload(event_id: str, payload: str) -> str:
    """Return the payload of a correction: the original, marked. Spliced as text to keep its numbers unchanged."""
    mark = f'{{"undone":true,"corrects":"{event_id}","reason":"reorg"'
    return mark + ("}" if payload == "{}" else "," + payload[1:])


def bet_submitted(market: NoticeMarket, outcome: int, amount: int, tx: bytes) -> str:
    return text({"side": market.side(outcome), "sizeUsd": json_number(amount), "txHash": hex_of(tx)})


def bet_placed(market: NoticeMarket, e: Staked, *, tx: bytes, block: int) -> str:
    """Return the payload. `avgPriceCents` is the price of a share without the fee, rounded down to 4 decimals."""
    cents = json_ratio_down(100 * (e.amount - e.fee), e.shares, 4) if e.shares else json_number(0)
    return text(
        {
            "side": market.side(e.outcome),
            "sizeUsd": json_number(e.amount),
            "feeUsd": json_number(e.fee),
            "shares": json_number(e.shares),
            "avgPriceCents": cents,
            "builderCode": hex_of(e.builder) if any(e.builder) else None,
            "ref": ref_text(e.ref),
            "stakeId": str(e.stake_id),
            **market.times,
            "txHash": hex_of(tx),
            "blockNumber": block,
        }
    )


def market_resolved(market: NoticeMarket, *, winner: int | None, observed: int | None, tx: bytes, block: int) -> str:
    """Return the payload. `refunded`: all stakes are refunded in full, because the market is void, no stake is on the
    winner, or none is on anything else. `payoutPerShareUsd` is null where shares are not paid alike."""
    book = market.book
    share = book.share_payout(winner)
    caps = market.spec.kind is not MarketKind.DIRECTION
    label = "Void, stakes refunded" if winner is None else market.outcomes[winner].label
    return text(
        {
            "status": "void" if winner is None else "resolved",
            "resolvedOutcome": "void" if winner is None else market.side(winner),
            "resolvedOutcomeLabel": label,
            "observedMarketCapUsd": json_number(observed, FEED_DECIMALS) if caps and observed is not None else None,
            "payoutPerShareUsd": None if share is None else json_ratio_down(*share, 6),
            "poolUsd": json_number(book.net_pool),
            "refunded": book.refunds(winner),
            **market.times,
            "txHash": hex_of(tx),
            "blockNumber": block,
        }
    )


def position_ended(market: NoticeMarket, *, outcome: int, winner: int, amount: int, shares: int, owed: int) -> str:
    return text(
        {
            "side": market.side(outcome),
            "resolvedOutcome": market.side(winner),
            "sizeUsd": json_number(amount),
            "shares": json_number(shares),
            "payoutUsd": json_number(owed),
        }
    )


def payout(market: NoticeMarket, *, outcome: int | None, amount: int, stake_id: int, tx: bytes, **more: Any) -> str:
    """Return the payload of a payout that was sent, made or refused. `side` is null for a payment that came too late to
    be a stake."""
    return text(
        {
            "amountUsd": json_number(amount),
            "side": market.side(outcome),
            "stakeId": str(stake_id),
            "txHash": hex_of(tx),
            **more,
        }
    )
