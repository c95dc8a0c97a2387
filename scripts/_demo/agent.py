"""Agents that trade by x402: wallets with USDC and no ETH, and the official client, which knows nothing of us.

They quote, and bet what the quote says on any open market; above 10 USD with the quote's lock. A dozen trades at first,
then one now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from datetime import datetime
from typing import Any

import requests
from eth_account import Account
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
# A market that ends sooner might be closed before the payment is signed.
LEAST_LEFT_SECONDS = 30


async def play(base_url: str) -> None:
    """Trades until it is stopped; a refusal or a pause of the service only means another try later."""
    dice = random.Random(21)  # noqa: S311 (the same story on every first start)
    traders = [Trader(base_url, each) for each in wallets.BETTORS[:3]]
    placed = 0
    while True:
        with contextlib.suppress(requests.RequestException, PaymentError, KeyError, ValueError):
            placed += await asyncio.to_thread(dice.choice(traders).trade, dice)
        await asyncio.sleep(FIRST_PAUSE_SECONDS if placed < FIRST_TRADES else PAUSE_SECONDS)


class Trader:
    def __init__(self, base_url: str, wallet: wallets.Wallet) -> None:
        self._api = f"{base_url}/api/agent/v1"
        self._wallet = wallet
        client = x402ClientSync()
        register_exact_evm_client(client, Account.from_key(wallet.private_key))
        client.set_spend_controls({"max_amount_per_payment": SPEND_LIMIT})
        self._session = x402_requests(client)
        self._session.trust_env = False  # the service is on this machine, whatever proxy the shell names

    def trade(self, dice: random.Random) -> bool:
        """One bet on one open market; True when there is a receipt."""
        markets = [
            each for each in self._get("/markets", limit=200)["markets"] if _seconds_left(each) > LEAST_LEFT_SECONDS
        ]
        if not markets:
            return False
        market = dice.choice(markets)
        side, size = dice.choice(market["outcomes"])["key"], dice.choice(SIZES_USD)
        body: dict[str, Any] = {
            "marketId": market["id"],
            "side": side,
            "sizeUsd": size,
            "idemKey": f"demo-{secrets.token_hex(12)}",
            "walletAddress": self._wallet.address,
            "ref": "demo",
        }
        if size > SIMPLE_MAX_USD:
            quote = self._get("/quote", marketId=market["id"], side=side, sizeUsd=size)["quote"]
            body |= {"quoteId": quote["quoteId"], "minSharesOut": quote["suggestedMinSharesOut"]}
        answer = self._session.post(f"{self._api}/trade", json=body, timeout=PATIENCE_SECONDS)
        return bool(answer.status_code == 200)

    def _get(self, path: str, **query: object) -> dict[str, Any]:
        answer = self._session.get(
            self._api + path, params={name: str(value) for name, value in query.items()}, timeout=10
        )
        answer.raise_for_status()
        body: dict[str, Any] = answer.json()
        return body


def _seconds_left(market: dict[str, Any]) -> float:
    return datetime.fromisoformat(market["deadlineAt"]).timestamp() - time.time()
