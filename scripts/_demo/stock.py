"""Wallets without ETH that place gasless bets on stock markets.

A dozen bets at first, so that the pages have something to show, then one every 45 s. They only use what every bettor
has: the market list, the typed data to sign, and the relay.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from typing import Any

import aiohttp
from eth_account import Account

from core.hexadecimal import hex_of
from scripts._stack import wallets

FIRST_BETS = 12
FIRST_PAUSE_SECONDS = 7.0  # the relay takes ten requests a minute from one address
PAUSE_SECONDS = 45.0
STAKES = (1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000)  # units


async def play(base_url: str) -> None:
    """Bet until stopped; try again later after a refusal or an outage."""
    dice = random.Random(20)  # noqa: S311 (the same story on every first start)
    placed = 0
    # Rate limits apply per address; on Linux the demo has its own, so it never uses up another client's limit.
    address = ("127.0.0.2", 0) if sys.platform.startswith("linux") else None
    connector = aiohttp.TCPConnector(local_addr=address)
    patience = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(base_url, connector=connector, timeout=patience) as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, KeyError):
                placed += await _bet(session, dice)
            await asyncio.sleep(FIRST_PAUSE_SECONDS if placed < FIRST_BETS else PAUSE_SECONDS)


async def _bet(session: aiohttp.ClientSession, dice: random.Random) -> int:
    """Place one bet on a random open market; return 1 if the relay accepted it."""
    async with session.get("/api/markets") as answer:
        markets = (await answer.json())["markets"]
    open_now = [market for market in markets if market["acceptingBets"]]
    if not open_now:
        return 0
    market, wallet = dice.choice(open_now), dice.choice(wallets.BETTORS)
    query = {
        "marketId": market["id"],
        "outcome": str(dice.randrange(2)),
        "amount": str(dice.choice(STAKES)),
        "from": wallet.address,
    }
    async with session.get("/api/relay/typed-data", params=query) as answer:
        if answer.status != 200:
            return 0
        typed: dict[str, Any] = await answer.json()
    message = {**typed["message"], "from": wallet.address}
    body = {name: typed[name] for name in ("domain", "types", "primaryType")} | {"message": message}
    signed = Account.sign_typed_data(wallet.private_key, full_message=body)
    request = {**typed["request"], "from": wallet.address, "signature": hex_of(signed.signature)}
    async with session.post("/api/relay/enter", json=request) as answer:
        return int(answer.status == 200)
