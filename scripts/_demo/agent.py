"""Agents that trade by x402: wallets with USDC and no ETH. Some use the official client, which knows nothing of us; the
others bet by our own client library, which binds each payment to its bet.

They quote, and bet what the quote says on any market that takes stakes; above 10 USD with the quote's lock. A dozen
trades at first, then one now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any

import httpx
import requests
from eth_account import Account
from vpm_client import Client, VpmError
from vpm_client.models import AgentMarketRef
from x402 import x402ClientSync
from x402.http.clients.requests import PaymentError, x402_requests
from x402.mechanisms.evm.exact import register_exact_evm_client

from scripts._stack import wallets

FIRST_TRADES = 12
FIRST_PAUSE_SECONDS = 6.0  # a wallet may trade ten times a minute
PAUSE_SECONDS = 40.0
PATIENCE_SECONDS = 30
SIZES_USD = (1, 2, 3, 5, 8, 10, 15, 25)
SIMPLE_MAX_USD = 10
# What an agent allows its client to pay unasked.
SPEND_LIMIT = "$50"
# A market that takes stakes for less than this might be closed before the payment is signed.
MIN_LEFT_SECONDS = 30
REF = "demo"


async def play(base_url: str) -> None:
    """Trades until it is stopped; a refusal or a pause of the service only means another try later."""
    dice = random.Random(21)  # noqa: S311 (the same story on every first start)
    first, *others = wallets.BETTORS[:3]
    traders = [OfficialTrader(base_url, first), *(BoundTrader(base_url, each) for each in others)]
    placed = 0
    while True:
        with contextlib.suppress(VpmError, requests.RequestException, PaymentError, KeyError, ValueError):
            placed += await asyncio.to_thread(dice.choice(traders).trade, dice)
        await asyncio.sleep(FIRST_PAUSE_SECONDS if placed < FIRST_TRADES else PAUSE_SECONDS)


class Trader(ABC):
    """A wallet that bets. How it buys is its subclasses' part."""

    def __init__(self, base_url: str, wallet: wallets.Wallet) -> None:
        # The service is on this machine, whatever proxy the shell names.
        self._http = httpx.Client(trust_env=False)
        account = Account.from_key(wallet.private_key)
        self._client = Client(base_url, account, http=self._http, patience_seconds=PATIENCE_SECONDS)

    def close(self) -> None:
        self._http.close()

    def trade(self, dice: random.Random) -> bool:
        """One bet on one open market; True when there is a receipt."""
        markets = [each for each in self._client.markets(limit=200).markets if _seconds_left(each) > MIN_LEFT_SECONDS]
        if not markets:
            return False
        market = dice.choice(markets)
        return self._buy(market.id, dice.choice(market.outcomes or []).key, dice.choice(SIZES_USD))

    @abstractmethod
    def _buy(self, market: str, side: str, size: int) -> bool:
        """Whether the bet was placed."""


class OfficialTrader(Trader):
    """A wallet that pays with the official x402 client: transfer form, random nonce."""

    def __init__(self, base_url: str, wallet: wallets.Wallet) -> None:
        super().__init__(base_url, wallet)
        client = x402ClientSync()
        register_exact_evm_client(client, Account.from_key(wallet.private_key))
        client.set_spend_controls({"max_amount_per_payment": SPEND_LIMIT})
        self._url = f"{base_url}/api/agent/v1/trade"
        self._wallet = wallet
        self._session = x402_requests(client)
        self._session.trust_env = False

    def _buy(self, market: str, side: str, size: int) -> bool:
        body: dict[str, Any] = {
            "marketId": market,
            "side": side,
            "sizeUsd": size,
            "idemKey": f"demo-{secrets.token_hex(12)}",
            "walletAddress": self._wallet.address,
            "ref": REF,
        }
        if size > SIMPLE_MAX_USD:
            quote = self._client.quote(market, side=side, size_usd=size).quote
            body |= {"quoteId": quote.quote_id, "minSharesOut": float(quote.suggested_min_shares_out)}
        return bool(self._session.post(self._url, json=body, timeout=PATIENCE_SECONDS).status_code == 200)


class BoundTrader(Trader):
    """A wallet that bets by our client library: only the settlement wallet can take the payment, and only for this
    bet."""

    def _buy(self, market: str, side: str, size: int) -> bool:
        self._client.bet(market, side, size, ref=REF, final=False)
        return True


def _seconds_left(market: AgentMarketRef) -> float:
    return datetime.fromisoformat(market.deadline_at).timestamp() - time.time()
