"""The 200 of a trade: the receipt of what is on chain, signed, and of a simulation."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from api.agent import outlook
from api.agent.bodies.numbers import average_cents, usd
from api.agent.bodies.parts import meta, times
from api.agent.bodies.trades import AgentTradeReceipt, EscapeKit, ReceiptPosition, TradeBody, receipt
from api.agent.facts import BookTotals, ListedMarket, Stake
from api.agent.links import Links
from api.agent.trade import refusals as trade_refusals
from api.agent.trade import x402
from api.agent.trade.attest import Attester
from api.agent.trade.orders import Order
from api.http.application import json_response
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
        body = TradeBody(
            meta=meta(self._links),
            replay=replay,
            receipt=receipt(market, stake, totals, self._links),
            escape_kit=msgspec.convert(kit, EscapeKit | None),
        )
        extensions = self._attester.receipt(
            resource=f"{self._links.api}/trade#{hex_of(stake.bet_hash)}",
            payer=stake.wallet,
            issued_at=stake.at,
            transaction=tx_hash,
        )
        if extensions:
            body.extensions = extensions
        headers = x402.settled_headers(tx_hash, stake.wallet, self._attester.network, extensions)
        return json_response(body, headers=headers)

    def simulated(self, order: Order, *, now: int, balance: int | None) -> web.Response:
        """`now`: the chain's clock; `balance`: what the wallet holds, None when that cannot be read."""
        ahead = outlook.of_quote(order.market, order.outcome, order.got, now=now, balance=balance)
        simulated = AgentTradeReceipt(
            **times(order.market),
            **ahead.fields(),
            trade_id=order.resource_hash,
            market_id=order.market.id,
            side=order.market.outcomes[order.outcome].key,
            size_usd=usd(order.bet.amount),
            simulated=True,
            tx_hash=None,
            explorer_url=None,
            intent_hash=order.resource_hash,
            builder_code=order.request.builder,
            position=ReceiptPosition(
                shares=usd(order.got.shares), avg_price_cents=average_cents(order.got.net, order.got.shares)
            ),
            proof_url=None,
            recorded_at=now_iso(),
        )
        return json_response(TradeBody(meta=meta(self._links), replay=False, receipt=simulated))
