"""The 402 of a trade, and the payment that answers it."""

from __future__ import annotations

import time

from aiohttp import web

from api.agent.chain import AgentContracts
from api.agent.errors import problem
from api.agent.links import Links
from api.agent.requests import TradeRequest
from api.agent.trade import payment as paying
from api.agent.trade import x402
from api.agent.trade.attest import Attester
from api.agent.trade.orders import Order
from api.http.application import json_response
from api.payments.authorization import Authorization
from core.money import decimal_text


class Challenges:
    """The challenges of the trade endpoint, in both versions of x402."""

    def __init__(self, contracts: AgentContracts, attester: Attester, links: Links) -> None:
        self._contracts = contracts
        self._seller = x402.Seller.of(contracts)
        self._attester = attester
        self._links = links

    def ask(self, order: Order, error: str | None, now: int) -> web.Response:
        """Ask for the payment of an order. `error`: why the payment before was not taken. `now`: the chain's clock;
        nothing that is signed is good for longer than stakes are taken."""
        side = order.market.outcomes[order.outcome].key
        offer = x402.Offer(
            self._seller,
            resource=f"{self._links.api}/trade#{order.resource_hash}",
            description=f"Bet {decimal_text(order.bet.amount)} USDC on {side}: {order.market.words.question}",
            amount=order.bet.amount,
            seconds=paying.seconds_to_pay(now, order.market.closes_at),
            bet_hash=order.hash,
            body=order.request.essence(),
        )
        signed = self._attester.offer(
            resource=offer.resource,
            asset=self._seller.token.address,
            pay_to=self._seller.pay_to,
            amount=offer.amount,
            valid_until=int(time.time()) + offer.seconds,
        )
        headers = {x402.REQUIRED_HEADER: offer.required(error, signed)}
        return json_response(offer.challenge(error, signed), 402, headers=headers)

    def answer_in(self, request: web.Request, trade: TradeRequest) -> tuple[Authorization | None, str | None]:
        """Return the payment of the headers, if it is this wallet's to us; or what is wrong with it."""
        headers = [value for name in x402.PAYMENT_HEADERS for value in request.headers.getall(name, ())]
        if trade.simulate:
            return None, None
        try:
            payment = x402.offered(headers, self._seller)
            if payment is not None:
                paying.check_parties(payment, wallet=trade.wallet, pay_to=self._seller.pay_to)
        except paying.PaymentRejected as why:
            return None, str(why)
        except x402.PaymentsDiffer:
            names = " and ".join(x402.PAYMENT_HEADERS)
            issues = [{"field": name, "problem": "holds another payment"} for name in x402.PAYMENT_HEADERS]
            raise problem(
                "invalid_request", f"{names} hold two payments that differ: send the one that is meant.", issues=issues
            ) from None
        return payment, None
