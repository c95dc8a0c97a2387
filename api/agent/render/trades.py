"""A trade that settled: its receipt and its proof."""

from __future__ import annotations

from api.agent import outlook
from api.agent.facts import BookTotals, ListedMarket, Stake
from api.agent.links import Links
from api.agent.render.markets import NETWORK, market_facts, times
from api.agent.render.numbers import average_cents, usd
from api.http.body import Json
from core.hexadecimal import hex_of
from core.iso import iso


def receipt(market: ListedMarket, stake: Stake, totals: BookTotals, links: Links) -> Json:
    """The receipt of a settled trade: of what is on chain and nothing else, so a rebuilt database gives the same.

    totals: what stood on each outcome right after it.
    """
    assert stake.outcome is not None
    return {
        "tradeId": hex_of(stake.bet_hash),
        "marketId": market.id,
        "side": market.outcomes[stake.outcome].key,
        "sizeUsd": usd(stake.amount),
        "simulated": False,
        "txHash": hex_of(stake.tx),
        "explorerUrl": links.tx(stake.tx),
        "intentHash": hex_of(stake.bet_hash),
        "builderCode": stake.builder,
        "position": {"shares": usd(stake.shares), "avgPriceCents": average_cents(stake.net, stake.shares)},
        **times(market),
        **outlook.of_landed(market, stake, stake.outcome, totals).body(),
        "proofUrl": links.proof(stake.bet_hash),
        "recordedAt": iso(stake.at),
    }


def proof(market: ListedMarket, stake: Stake, links: Links, now: int, status: str) -> Json:
    assert stake.outcome is not None
    ref = stake.ref_text
    return {
        "tradeId": hex_of(stake.bet_hash),
        "market": market_facts(market, links, now),
        "position": {
            "userId": f"agent:{stake.wallet}",
            "walletAddress": stake.wallet,
            "side": market.outcomes[stake.outcome].key,
            "shares": usd(stake.shares),
            "priceCents": average_cents(stake.net, stake.shares),
            "sizeUsd": usd(stake.amount),
            "feeUsd": usd(stake.fee),
        },
        "settlement": {
            "txHash": hex_of(stake.tx),
            "explorerUrl": links.tx(stake.tx) or "",
            "status": status,
            "network": NETWORK,
            "settledAt": iso(stake.at),
            "contract": links.settlement,
            "stakeId": str(stake.id),
            "blockNumber": stake.block,
        },
        "attribution": {
            "source": ref,
            "mentionId": ref.removeprefix("mention:") if ref is not None and ref.startswith("mention:") else None,
            "ref": ref,
            "builderCode": stake.builder,
        },
    }
