"""Generates demo traffic on a local stack: `python -m scripts._demo BASE_URL [--base-rpc URL --pools FILE]`. It runs
until it is stopped. Demo wallets without ETH bet through the public API as any bettor can: without paying gas on stock
markets, and by x402 on agent markets. The first dozen bets on each kind of market come quickly, so that the pages have
something to show. A trader moves the prices of the agents' tokens along a random walk, with a swap in each pool every
20 s."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import httpx
from eth_account import Account
from vpm_client import Client, VpmError
from vpm_client.models import AgentMarketRef

from core.hexadecimal import hex_of
from scripts._stack import wallets
from scripts._stack.agent_pools import AgentPools, Walk, trade_once, trader
from scripts._stack.chain_setup import LocalNode
from scripts._stack.state import StackError

FIRST_BETS = 12
RELAY_PAUSES = (7.0, 45.0)  # seconds, for the first bets and later: the relay allows an address ten requests a minute
TRADE_PAUSES = (6.0, 40.0)  # the API allows a wallet ten trades a minute
SWAP_PAUSE_SECONDS = 20.0
PATIENCE_SECONDS = 30
STAKES = (1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000)  # units
SIZES_USD = (1, 2, 3, 5, 8, 10, 15, 25)
MIN_LEFT_SECONDS = 30  # a market that closes sooner might be closed before the payment is signed
REF = "demo"
FAILURES = (aiohttp.ClientError, httpx.HTTPError, VpmError, TimeoutError, KeyError, ValueError, OSError, StackError)


async def _repeat(play: Callable[[], Awaitable[int]], pauses: tuple[float, float]) -> None:
    """Call `play` until stopped, with a pause after each call. The pauses are short until the first bets have
    succeeded, and longer afterwards. A failed call counts as no bet."""
    placed = 0
    while True:
        with contextlib.suppress(*FAILURES):
            placed += await play()
        await asyncio.sleep(pauses[placed >= FIRST_BETS])


# ---------------------------------------------------------------- stock markets


async def bet_on_stocks(base_url: str) -> None:
    dice = random.Random(20)  # noqa: S311 (the same history on every first start)
    # Rate limits apply per address; on Linux the demo has its own, so it never uses up another client's limit.
    address = ("127.0.0.2", 0) if sys.platform.startswith("linux") else None
    connector = aiohttp.TCPConnector(local_addr=address)
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(base_url, connector=connector, timeout=timeout) as session:
        await _repeat(lambda: _bet(session, dice), RELAY_PAUSES)


async def _bet(session: aiohttp.ClientSession, dice: random.Random) -> int:
    """Place one bet on a random open market. Return 1 if the relay accepted the bet."""
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


# ---------------------------------------------------------------- agent markets


async def trade_as_agents(base_url: str) -> None:
    dice = random.Random(21)  # noqa: S311 (the same history on every first start)
    # The service is on this machine, so a proxy set in the shell is ignored.
    with httpx.Client(trust_env=False) as http:
        clients = [client_of(base_url, wallet, http) for wallet in wallets.BETTORS[:3]]
        await _repeat(lambda: asyncio.to_thread(trade, dice.choice(clients), dice), TRADE_PAUSES)


def client_of(base_url: str, wallet: wallets.Wallet, http: httpx.Client) -> Client:
    return Client(base_url, Account.from_key(wallet.private_key), http=http, patience_seconds=PATIENCE_SECONDS)


def trade(client: Client, dice: random.Random) -> bool:
    """Place one bet on a random open market. For a bet above 10 USD, lock a quote first. Return False if no market is
    open."""
    markets = [each for each in client.markets(limit=200).markets if _seconds_left(each) > MIN_LEFT_SECONDS]
    if not markets:
        return False
    market = dice.choice(markets)
    client.bet(market.id, dice.choice(market.outcomes or []).key, dice.choice(SIZES_USD), ref=REF, final=False)
    return True


def _seconds_left(market: AgentMarketRef) -> float:
    return datetime.fromisoformat(market.deadline_at).timestamp() - time.time()


# ---------------------------------------------------------------- pools


async def move_prices(rpc_url: str, saved: Path) -> None:
    node = LocalNode(rpc_url)
    walk = Walk(await asyncio.to_thread(trader, node), AgentPools.load(saved))

    async def swap() -> int:
        await asyncio.to_thread(trade_once, node, walk, int(time.time()))
        return 0

    await _repeat(swap, (SWAP_PAUSE_SECONDS, SWAP_PAUSE_SECONDS))


async def play(base_url: str, base_rpc: str | None, saved_pools: Path | None) -> None:
    parts = [bet_on_stocks(base_url), trade_as_agents(base_url)]
    if base_rpc is not None and saved_pools is not None:
        parts.append(move_prices(base_rpc, saved_pools))
    await asyncio.gather(*parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts._demo")
    parser.add_argument("base_url")
    parser.add_argument("--base-rpc")
    parser.add_argument("--pools", type=Path, help="the file that describes the stack's local pools")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(play(options.base_url, options.base_rpc, options.pools))


if __name__ == "__main__":
    main()
