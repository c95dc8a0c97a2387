"""Agents that trade by x402 with our client library: wallets with USDC and no ETH.

They quote and bet on any open market, above 10 USD with a locked quote: a dozen trades at first, then one every 40 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from datetime import datetime

import httpx
from eth_account import Account
from vpm_client import Client, VpmError
from vpm_client.models import AgentMarketRef

from scripts._stack import wallets

FIRST_TRADES = 12
FIRST_PAUSE_SECONDS = 6.0  # a wallet may trade ten times a minute
PAUSE_SECONDS = 40.0
PATIENCE_SECONDS = 30
SIZES_USD = (1, 2, 3, 5, 8, 10, 15, 25)
# A market that closes sooner might be closed before the payment is signed.
MIN_LEFT_SECONDS = 30
REF = "demo"


async def play(base_url: str) -> None:
    """Trade until stopped; try again later after a refusal or an outage."""
    dice = random.Random(21)  # noqa: S311 (the same story on every first start)
    placed = 0
    # The service is on this machine, so a proxy set in the shell is ignored.
    with httpx.Client(trust_env=False) as http:
        clients = [client_of(base_url, wallet, http) for wallet in wallets.BETTORS[:3]]
        while True:
            with contextlib.suppress(VpmError, httpx.HTTPError, ValueError):
                placed += await asyncio.to_thread(trade, dice.choice(clients), dice)
            await asyncio.sleep(FIRST_PAUSE_SECONDS if placed < FIRST_TRADES else PAUSE_SECONDS)


def client_of(base_url: str, wallet: wallets.Wallet, http: httpx.Client) -> Client:
    return Client(base_url, Account.from_key(wallet.private_key), http=http, patience_seconds=PATIENCE_SECONDS)


def trade(client: Client, dice: random.Random) -> bool:
    """Place one bet on a random open market; return False if there is none."""
    markets = [each for each in client.markets(limit=200).markets if _seconds_left(each) > MIN_LEFT_SECONDS]
    if not markets:
        return False
    market = dice.choice(markets)
    client.bet(market.id, dice.choice(market.outcomes or []).key, dice.choice(SIZES_USD), ref=REF, final=False)
    return True


def _seconds_left(market: AgentMarketRef) -> float:
    return datetime.fromisoformat(market.deadline_at).timestamp() - time.time()
