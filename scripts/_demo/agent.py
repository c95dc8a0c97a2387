"""Agents that trade by x402: wallets with USDC and no ETH. Some use the official client, which knows nothing of us; the
others sign the receive form, which binds each payment to its bet.

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

import requests
from eth_account import Account
from x402 import x402ClientSync
from x402.http.clients.requests import PaymentError, x402_requests
from x402.mechanisms.evm.exact import register_exact_evm_client

from core.contracts.statuses import Form
from scripts._stack import wallets
from scripts._stack.payments import bound_header

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


async def play(base_url: str) -> None:
    """Trades until it is stopped; a refusal or a pause of the service only means another try later."""
    dice = random.Random(21)  # noqa: S311 (the same story on every first start)
    first, *others = wallets.BETTORS[:3]
    traders = [OfficialTrader(base_url, first), *(BoundTrader(base_url, each) for each in others)]
    placed = 0
    while True:
        with contextlib.suppress(requests.RequestException, PaymentError, KeyError, ValueError):
            placed += await asyncio.to_thread(dice.choice(traders).trade, dice)
        await asyncio.sleep(FIRST_PAUSE_SECONDS if placed < FIRST_TRADES else PAUSE_SECONDS)


class Trader(ABC):
    """A wallet that bets. How it pays is its subclasses' part."""

    def __init__(self, base_url: str, wallet: wallets.Wallet, session: requests.Session) -> None:
        self._api = f"{base_url}/api/agent/v1"
        self._wallet = wallet
        self._session = session
        self._session.trust_env = False  # the service is on this machine, whatever proxy the shell names

    @abstractmethod
    def _buy(self, body: dict[str, Any]) -> requests.Response:
        """Asks for the bet, and pays for it when asked to."""

    def trade(self, dice: random.Random) -> bool:
        """One bet on one open market; True when there is a receipt."""
        markets = [
            each for each in self._get("/markets", limit=200)["markets"] if _seconds_left(each) > MIN_LEFT_SECONDS
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
        return bool(self._buy(body).status_code == 200)

    def _post(self, body: dict[str, Any], headers: dict[str, str] | None = None) -> requests.Response:
        return self._session.post(f"{self._api}/trade", json=body, headers=headers, timeout=PATIENCE_SECONDS)

    def _get(self, path: str, **query: object) -> dict[str, Any]:
        answer = self._session.get(
            self._api + path, params={name: str(value) for name, value in query.items()}, timeout=10
        )
        answer.raise_for_status()
        body: dict[str, Any] = answer.json()
        return body


class OfficialTrader(Trader):
    """A wallet that pays with the official x402 client: transfer form, random nonce."""

    def __init__(self, base_url: str, wallet: wallets.Wallet) -> None:
        client = x402ClientSync()
        register_exact_evm_client(client, Account.from_key(wallet.private_key))
        client.set_spend_controls({"max_amount_per_payment": SPEND_LIMIT})
        super().__init__(base_url, wallet, x402_requests(client))

    def _buy(self, body: dict[str, Any]) -> requests.Response:
        return self._post(body)


class BoundTrader(Trader):
    """A wallet that pays in the receive form: only the settlement wallet can take the payment, and only for this
    bet."""

    def __init__(self, base_url: str, wallet: wallets.Wallet) -> None:
        super().__init__(base_url, wallet, requests.Session())

    def _buy(self, body: dict[str, Any]) -> requests.Response:
        challenge = self._post(body)
        if challenge.status_code != 402:
            return challenge
        offer = challenge.json()["accepts"][0]
        return self._post(body, bound_header(offer, self._wallet, int(time.time()), Form.RECEIVE))


def _seconds_left(market: dict[str, Any]) -> float:
    return datetime.fromisoformat(market["deadlineAt"]).timestamp() - time.time()
