"""The 200 of a trade: the receipt of what is on chain, signed, and of a simulation."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from api.agent import render, x402
from api.agent.attest import Attester
from api.agent.facts import Market, Stake
from api.agent.orders import Order
from api.agent.problems import problem
from api.agent.render import Links
from api.agent.reply import reply
from api.agent.times import now_iso


class Receipts:
    def __init__(self, links: Links, attester: Attester) -> None:
        self._links = links
        self._attester = attester

    def settled(self, market: Market, stake: Stake, *, replay: bool, kit: dict[str, Any] | None) -> web.Response:
        tx_hash = "0x" + stake.tx.hex()
        if stake.outcome is None:
            raise problem(
                "payment_invalid",
                "The payment reached the contract when it could no longer be staked; it is given back whole.",
                hint="Nothing to do: the refund is sent to your wallet.",
                txHash=tx_hash,
            )
        body: dict[str, Any] = {"replay": replay, "receipt": render.receipt(market, stake, self._links)}
        extensions = self._attester.receipt(
            resource=f"{self._links.api}/trade#0x{stake.intent_hash.hex()}",
            payer=stake.wallet,
            issued_at=stake.at,
            transaction=tx_hash,
        )
        if extensions:
            body["extensions"] = extensions
        body["escapeKit"] = kit
        headers = {"X-Payment-Response": x402.settled_header(tx_hash, stake.wallet)}
        return reply(self._links, body, headers=headers)

    def simulated(self, order: Order) -> web.Response:
        receipt = {
            "tradeId": order.resource_hash,
            "marketId": order.market.id,
            "side": order.market.outcomes[order.outcome].key,
            "sizeUsd": render.usd(order.intent.amount),
            "simulated": True,
            "txHash": None,
            "explorerUrl": None,
            "intentHash": order.resource_hash,
            "builderCode": order.request.builder,
            "position": {
                "shares": render.usd(order.got.shares),
                "avgPriceCents": render.average_cents(order.got.net, order.got.shares),
            },
            "proofUrl": None,
            "recordedAt": now_iso(),
        }
        return reply(self._links, {"replay": False, "receipt": receipt})
