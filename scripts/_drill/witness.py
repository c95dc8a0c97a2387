"""What the chains and the public pages show, past everything that the service under drill says of itself.

A drill looks here for what must be different afterwards: a row of the service's own tables may say so of nothing.
"""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from core.agent.bet import idem_hash
from core.chain import Contract, checksum
from core.contracts.abi import abi
from core.contracts.statuses import StockMarketStatus
from core.hexadecimal import bytes_of
from scripts._drill.fleet import Fleet
from scripts._drill.load import Load, Promise
from scripts._stack.wallets import Wallet

_PATIENCE = aiohttp.ClientTimeout(total=10)


async def times_there(fleet: Fleet, one: Promise) -> int:
    """How often a bet happened: on its chain, or in the cup's ledger."""
    if one.surface == "stock":
        call = fleet.token("stock").call("authorizationState", one.wallet.address, bytes_of(one.key))
        return int(bool(await fleet.read("stock", call)))
    if one.surface == "agent":
        call = fleet.contract("base", "SettlementWallet").call(
            "stakeOf", checksum(one.wallet.address), idem_hash(one.key)
        )
        return int(await fleet.read("base", call) != 0)
    if one.surface == "wheel":
        round_no, wallet, bet_key = one.key.split()
        rows = await fleet.ask_database(
            "SELECT count(*) FROM cup_bet WHERE round_no = %s AND wallet = %s AND bet_key = %s",
            int(round_no),
            wallet,
            bet_key,
        )
        return int(rows[0][0])
    rows = await fleet.ask_database("SELECT count(*) FROM cup_trade WHERE trade_id = %s", one.key)
    return int(rows[0][0])


async def is_public(fleet: Fleet, load: Load, bet: Promise, door: str | None = None) -> bool:
    """Whether its owner's public page shows a stock bet. `door`: an API process; otherwise any that answers."""
    assert bet.request is not None
    path = f"/api/positions?owner={bet.wallet.address}"
    if door is None:
        status, body = await load.call("GET", path)
    else:
        status, body = await at_door(load, door + path)
    return status == 200 and any(
        each["marketId"] == bet.request[1]["marketId"] and int(each["offered"]) == bet.amount
        for each in body["positions"]
    )


async def at_door(load: Load, url: str) -> tuple[int, Any]:
    """Status and JSON of this very address, over a connection of its own."""
    headers = {**load.caller(), "Connection": "close"}
    async with load.fleet.session.get(url, headers=headers, timeout=_PATIENCE) as answer:
        return answer.status, json.loads(await answer.read() or b"null")


async def offered_by(fleet: Fleet, position: int) -> int:
    """What a stock bet's contract has as its amount."""
    call = fleet.contract("stock", "VestedMarkets").call("position", position)
    return int((await fleet.read("stock", call))["offered"])


async def public_offer(load: Load, owner: str, position: int) -> int | None:
    """What its owner's public page says of the same; None while it says nothing of it."""
    status, body = await load.call("GET", f"/api/positions?owner={owner}")
    rows = body["positions"] if status == 200 else []
    return next((int(each["offered"]) for each in rows if int(each["id"]) == position), None)


async def balance(fleet: Fleet, owner: Wallet) -> int:
    """In units of the stock chain's token."""
    return int(await fleet.read("stock", fleet.token("stock").call("balanceOf", owner.address)))


async def terms(fleet: Fleet, market: int) -> dict[str, Any]:
    """A stock market as its contract has it."""
    return dict(await fleet.read("stock", fleet.contract("stock", "VestedMarkets").call("market", market)))


async def is_settled(fleet: Fleet, market: int) -> bool:
    return bool((await terms(fleet, market))["status"] != StockMarketStatus.OPEN)


async def observed_at(fleet: Fleet, chain: str, address: str) -> int:
    """When the newest round of a feed was observed, in Unix seconds."""
    newest = Contract(address, abi("ObservationFeed")).call("latestRoundData")
    return int((await fleet.read(chain, newest))[3])


async def prices(fleet: Fleet) -> dict[str, int]:
    """When each price feed of the stock chain was written last, by its ticker."""
    feeds = fleet.deployment("stock").price_feeds
    return {feed.ticker: await observed_at(fleet, "stock", feed.proxy) for feed in feeds}


async def observations(fleet: Fleet) -> dict[str, int]:
    """When each of the feeds that the publisher posts to was observed last, by its key."""
    feeds = fleet.deployment("base").published_feeds
    return {feed.key: await observed_at(fleet, "base", feed.address) for feed in feeds}


async def mined(fleet: Fleet, chain: str, transactions: list[str]) -> bool:
    """Whether all of them succeeded on the chain."""
    receipts = [await fleet.rpc(chain, "eth_getTransactionReceipt", each) for each in transactions]
    return all(receipt is not None and int(receipt["status"], 16) == 1 for receipt in receipts)
