"""The 200 of a trade: the receipt of what is on chain, signed, and of a simulation."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from api.agent import outlook, render
from api.agent.facts import BookTotals, ListedMarket, Stake
from api.agent.links import Links
from api.agent.reply import reply
from api.agent.trade import refusals as trade_refusals
from api.agent.trade import x402
from api.agent.trade.attest import Attester
from api.agent.trade.orders import Order
from core.hexadecimal import hex_of
from core.iso import now_iso


class Receipts:
    """The answers to trades that were paid for or simulated."""

    def __init__(self, links: Links, attester: Attester) -> None:
        self._links = links
        self._attester = attester

    def settled(
        self, market: ListedMarket, stake: Stake, totals: BookTotals | None, *, replay: bool, kit: dict[str, Any] | None
    ) -> web.Response:
        """`totals`: what stood on each outcome right after the stake; None for a payment owed back."""
        tx_hash = hex_of(stake.tx)
        if totals is None:
            raise trade_refusals.refunded(stake)
        body: dict[str, Any] = {"replay": replay, "receipt": render.receipt(market, stake, totals, self._links)}
        extensions = self._attester.receipt(
            resource=f"{self._links.api}/trade#{hex_of(stake.bet_hash)}",
            payer=stake.wallet,
            issued_at=stake.at,
            transaction=tx_hash,
        )
        if extensions:
            body["extensions"] = extensions
        body["escapeKit"] = kit
        headers = x402.settled_headers(tx_hash, stake.wallet, self._attester.network, extensions)
        return reply(self._links, body, headers=headers)

    def simulated(self, order: Order, *, now: int, balance: int | None) -> web.Response:
        """`now`: the chain's clock; `balance`: what the wallet holds, None when that cannot be read."""
        ahead = outlook.of_quote(order.market, order.outcome, order.got, now=now, balance=balance)
        receipt = {
            "tradeId": order.resource_hash,
            "marketId": order.market.id,
            "side": order.market.outcomes[order.outcome].key,
            "sizeUsd": render.usd(order.bet.amount),
            "simulated": True,
            "txHash": None,
            "explorerUrl": None,
            "intentHash": order.resource_hash,
            "builderCode": order.request.builder,
            "position": {
                "shares": render.usd(order.got.shares),
                "avgPriceCents": render.average_cents(order.got.net, order.got.shares),
            },
            **render.times(order.market),
            **ahead.body(),
            "proofUrl": None,
            "recordedAt": now_iso(),
        }
        return reply(self._links, {"replay": False, "receipt": receipt})
