"""How a market resolved."""

from __future__ import annotations

from api.agent import outlook
from api.agent.facts import ListedMarket
from api.agent.links import Links
from api.agent.render.markets import source, source_url, times
from api.agent.render.numbers import JsonNumber, feed_usd, usd
from api.http.body import Json
from core.contracts.statuses import MarketKind
from core.hexadecimal import hex_of
from core.iso import iso
from core.money import json_ratio_down


def result(market: ListedMarket, links: Links) -> Json:
    """A void market is resolved with outcome `void`: every stake is given back whole."""
    ending, book = market.ending, market.book
    won = None if ending is None or ending.winner is None else market.outcomes[ending.winner]
    winners = 0 if ending is None or ending.winner is None else book.shares[ending.winner]
    start, end = (None, None) if ending is None else (_reading(ending.start_answer), _reading(ending.end_answer))
    share = None if ending is None else outlook.share_payout(book, ending.winner)
    return {
        "marketId": market.id,
        **times(market),
        "status": "pending" if ending is None else "resolved",
        "resolvedOutcome": None if ending is None else "void" if won is None else won.key,
        "resolvedOutcomeLabel": None if ending is None else "Void, stakes refunded" if won is None else won.label,
        "resolvedAt": None if ending is None else iso(ending.at),
        "source": source(market),
        "sourceUrl": source_url(market, links),
        "observedMarketCapUsd": end if market.kind is not MarketKind.DIRECTION else None,
        "startReadingUsd": start,
        "endReadingUsd": end,
        "payoutPerShareUsd": None if share is None else json_ratio_down(*share, 6),
        "poolUsd": usd(book.net_pool),
        "winningShares": usd(winners),
        "proofUrl": None if ending is None else links.tx(ending.tx),
        "refunded": market.refunded(),
        "txHash": None if ending is None else hex_of(ending.tx),
    }


def _reading(answer: int | None) -> JsonNumber | None:
    return None if answer is None else feed_usd(answer)
