"""The responses to a trade: the signed 402 that asks for payment, the signed receipt, and the simulated receipt."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web
from eth_account import Account
from eth_account.signers.local import LocalAccount

from api.agent.bodies.parts import average_cents, meta, project_quote, times, usd
from api.agent.bodies.trades import AgentTradeReceipt, EscapeKit, ReceiptPosition, TradeBody, receipt
from api.agent.chain import AgentContracts
from api.agent.errors import problem
from api.agent.facts import BookTotals, Links, ListedMarket, Stake
from api.agent.requests import TradeRequest
from api.agent.trade import refusals as trade_refusals
from api.agent.trade import x402
from api.agent.trade.orders import Order
from api.caching import json_response
from api.payments.authorization import Authorization
from core.agent.attestation import EXTENSION, OFFER, PAYLOAD_VERSION, RECEIPT, TYPES, domain_of
from core.hexadecimal import hex_of
from core.iso import now_iso
from core.money import decimal_text


class Attester:
    """Signs offers and receipts in the EIP-712 form of x402's offer-and-receipt extension. Without a key, the extension
    is left out. The key only signs statements; it holds no money and has no role in the contracts."""

    def __init__(self, key: str | None) -> None:
        self._account: LocalAccount | None = None if key is None else Account.from_key(key)

    @property
    def address(self) -> str | None:
        return None if self._account is None else str(self._account.address)

    def offer(self, offer: x402.Offer) -> dict[str, Any]:
        payload = {
            "version": PAYLOAD_VERSION,
            "resourceUrl": offer.resource,
            "scheme": "exact",
            "network": offer.contracts.network,
            "asset": offer.contracts.token_facts.address,
            "payTo": offer.contracts.pay_to,
            "amount": str(offer.amount),
            "validUntil": int(time.time()) + offer.seconds,
        }
        signed = self._signed(OFFER, payload)
        return {} if signed is None else self._extension({"offers": [{**signed, "acceptIndex": 0}]})

    def receipt(self, stake: Stake, resource: str, network: str) -> dict[str, Any]:
        """Return a settled trade's `extensions`. `network`: the chain's CAIP-2 name."""
        payload = {
            "version": PAYLOAD_VERSION,
            "network": network,
            "resourceUrl": resource,
            "payer": stake.wallet,
            "issuedAt": stake.at,
            "transaction": hex_of(stake.tx),
        }
        signed = self._signed(RECEIPT, payload)
        return {} if signed is None else self._extension({"receipt": signed})

    def _extension(self, info: dict[str, Any]) -> dict[str, Any]:
        return {EXTENSION: {"info": {"signer": self.address, **info}}}

    def _signed(self, primary: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        if self._account is None:
            return None
        signed = self._account.sign_typed_data(
            domain_data=domain_of(primary), message_types={primary: TYPES[primary]}, message_data=payload
        )
        return {"format": "eip712", "payload": payload, "signature": hex_of(bytes(signed.signature))}


@dataclass(frozen=True, slots=True)
class TradeAnswers:
    contracts: AgentContracts
    attester: Attester
    links: Links

    def read_payment(self, request: web.Request, trade: TradeRequest) -> tuple[Authorization | None, str | None]:
        """Return the payment in the headers, or what is wrong with the payment. Both are None if there is no payment or
        the trade is simulated."""
        headers = [value for name in x402.PAYMENT_HEADERS for value in request.headers.getall(name, ())]
        if trade.simulate or not headers:
            return None, None
        try:
            payment, *others = {x402.decode(header, self.contracts) for header in headers}
            if others:
                names = " and ".join(x402.PAYMENT_HEADERS)
                issues = [{"field": name, "problem": "holds a different payment"} for name in x402.PAYMENT_HEADERS]
                raise problem("invalid_request", f"{names} hold different payments: send only one.", issues=issues)
            x402.check_parties(payment, wallet=trade.wallet, pay_to=self.contracts.pay_to)
        except x402.PaymentRejected as why:
            return None, str(why)
        return payment, None

    def challenge(self, order: Order, error: str | None, now: int) -> web.Response:
        """Return the 402 that asks for an order's payment. The payment is valid only while stakes are accepted.
        `error`: why the previous payment was not accepted. `now`: the chain's clock."""
        side = order.market.outcomes[order.outcome].key
        offer = x402.Offer(
            self.contracts,
            resource=f"{self.links.api}/trade#{order.resource_hash}",
            description=f"Bet {decimal_text(order.bet.amount)} USDC on {side}: {order.market.words.question}",
            amount=order.bet.amount,
            seconds=x402.seconds_to_pay(now, order.market.closes_at),
            bet_hash=order.hash,
            body=order.request.example_body(),
        )
        signed = self.attester.offer(offer)
        headers = {x402.REQUIRED_HEADER: offer.required(error, signed)}
        return json_response(offer.challenge(error, signed), 402, headers=headers)

    def settled(
        self,
        market: ListedMarket,
        stake: Stake,
        totals: BookTotals | None,
        *,
        replay: bool,
        kit: Mapping[str, Any] | None,
    ) -> web.Response:
        """Respond with a stake's receipt. `totals`: the outcomes' totals right after the stake; None for a refund."""
        if totals is None:
            raise trade_refusals.refunded(stake)
        body = TradeBody(
            meta=meta(self.links),
            replay=replay,
            receipt=receipt(market, stake, totals, self.links),
            escape_kit=msgspec.convert(kit, EscapeKit | None),
        )
        network = self.contracts.network
        extensions = self.attester.receipt(stake, f"{self.links.api}/trade#{hex_of(stake.bet_hash)}", network)
        if extensions:
            body.extensions = extensions
        headers = x402.settled_headers(hex_of(stake.tx), stake.wallet, network, extensions)
        return json_response(body, headers=headers)

    def simulated(self, order: Order, *, now: int, balance: int | None) -> web.Response:
        """Respond with a simulated receipt. `now`: the chain's clock. `balance`: None if it cannot be read."""
        ahead = project_quote(order.market, order.outcome, order.got, now=now, balance=balance)
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
        return json_response(TradeBody(meta=meta(self.links), replay=False, receipt=simulated))
