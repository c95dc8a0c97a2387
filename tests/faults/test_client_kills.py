"""Bets by our client libraries while the API is killed again and again. Each intended bet has one stake on the chain.

Some wallets bet with the Python library, sync and async, some with the TypeScript one, in separate runs. The API dies
at random moments, mostly during a request, and restarts; the clients get no other sign. Short by default;
`VPM_TEST_LONG=1` kills 200 times for each library, `VPM_TEST_KILLS` sets another number. The seed is printed;
`VPM_TEST_SEED` repeats it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from vpm_client import AsyncClient, Client, OutcomeUnknown, Unreachable

from core.contracts.events.agent import WALLET_EVENTS, Staked
from core.money import USD
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.client_libraries import async_strangers, betting, strangers
from tests.support.genesis import Genesis, chain

LONG = os.environ.get("VPM_TEST_LONG") == "1"
KILLS = int(os.environ.get("VPM_TEST_KILLS", "200" if LONG else "8"))
BETTORS = wallets.DEV[:6]
SIZES = (1, 2.5, 12)
"""Two without a lock, one with."""
MIN_SHARES = 0.5
"""They take any price: what moves the book is the others, and a bet that is refused proves nothing here."""
MAX_UP_SECONDS = 2.0
PATIENCE_SECONDS = 180


@pytest.fixture
def service(local_genesis: Genesis, fresh_database_url: str, tmp_path: Path) -> Iterator[AgentService]:
    with chain(local_genesis, "base", tmp_path / "anvil.log", block_seconds=1) as base:
        played = AgentChain.on(base.url, base.deployment)
        played.list("killed")
        with agent_service(played, fresh_database_url, local_genesis.deployments, tmp_path) as running:
            running.start("indexer", "relayer", "api")
            yield running


@dataclass
class Books:
    """The bets that the bettors intended, and the responses they got."""

    intended: Counter[str] = field(default_factory=Counter)
    spent: Counter[str] = field(default_factory=Counter)
    placed: list[str] = field(default_factory=list)
    replays: int = 0
    unknown: int = 0
    """Outcomes that did not arrive in time, so that the ticket was placed again."""
    errors: list[Any] = field(default_factory=list)

    def means(self, who: Wallet, size: float) -> None:
        self.intended[who.address.lower()] += 1
        self.spent[who.address.lower()] += round(size * USD)

    def got(self, trade: str, replay: bool) -> None:
        self.placed.append(trade)
        self.replays += replay


async def python_bettors(service: AgentService, books: Books, going: asyncio.Event) -> None:
    """Bet with the sync client in threads and the async client in this loop, half of the wallets each."""
    market = service.chain.ids["killed"]

    def bet_of(at: int, number: int) -> tuple[str, str, float]:
        return market, ("yes", "no")[(at + number) % 2], SIZES[number % len(SIZES)]

    def in_a_thread(who: Wallet, at: int) -> None:
        with strangers() as http:
            account = Account.from_key(who.private_key)
            client = Client(service.url, account, http=http, patience_seconds=PATIENCE_SECONDS)
            for number in itertools.takewhile(lambda _: going.is_set(), itertools.count()):
                bet = bet_of(at, number)
                books.means(who, bet[-1])
                ticket, placed = None, None
                while placed is None:
                    try:
                        ticket = ticket or client.prepare(*bet, min_shares=MIN_SHARES)
                        placed = client.place(ticket, final=False)
                    except (OutcomeUnknown, Unreachable) as unknown:
                        books.unknown += 1
                        ticket = unknown.ticket or ticket
                books.got(placed.receipt.trade_id, placed.replay)

    async def in_the_loop(who: Wallet, at: int) -> None:
        async with async_strangers() as http:
            account = Account.from_key(who.private_key)
            client = AsyncClient(service.url, account, http=http, patience_seconds=PATIENCE_SECONDS)
            for number in itertools.takewhile(lambda _: going.is_set(), itertools.count()):
                bet = bet_of(at, number)
                books.means(who, bet[-1])
                ticket, placed = None, None
                while placed is None:
                    try:
                        ticket = ticket or await client.prepare(*bet, min_shares=MIN_SHARES)
                        placed = await client.place(ticket, final=False)
                    except (OutcomeUnknown, Unreachable) as unknown:
                        books.unknown += 1
                        ticket = unknown.ticket or ticket
                books.got(placed.receipt.trade_id, placed.replay)

    jobs = [
        asyncio.to_thread(in_a_thread, who, at) if at % 2 else in_the_loop(who, at) for at, who in enumerate(BETTORS)
    ]
    for error in await asyncio.gather(*jobs, return_exceptions=True):
        if error is not None:
            books.errors.append(error)


async def typescript_bettors(service: AgentService, books: Books, going: asyncio.Event) -> None:
    order = {
        "act": "crowd",
        "baseUrl": service.url,
        "wallets": [who.private_key for who in BETTORS],
        "market": service.chain.ids["killed"],
        "sides": ["yes", "no"],
        "sizes": SIZES,
        "minShares": MIN_SHARES,
        "options": {"patienceSeconds": PATIENCE_SECONDS},
    }
    async with betting(order) as node:
        reading = asyncio.create_task(node.read())
        while going.is_set() and not reading.done():
            await asyncio.sleep(0.1)
        node.stop()
        await reading
    for line in node.said:
        if "intended" in line:
            books.means(BETTORS[line["wallet"]], line["intended"])
        elif "receipt" in line:
            books.got(line["receipt"]["tradeId"], line["replay"])
        elif "unknown" in line:
            books.unknown += 1
        elif "error" in line:
            books.errors.append(line["error"])
    assert node.said[-1] == {"done": True}


@pytest.mark.timeout(300 + 15 * KILLS)
@pytest.mark.parametrize(
    "bettors",
    [python_bettors, pytest.param(typescript_bettors, marks=pytest.mark.thorough)],
    ids=["python", "typescript"],
)
async def test_a_bet_is_one_stake_however_often_the_api_dies(service: AgentService, bettors: Any) -> None:
    seed = int(os.environ.get("VPM_TEST_SEED", random.randrange(2**32)))
    chance, books, going = random.Random(seed), Books(), asyncio.Event()
    token = service.chain.contracts.token
    before = {who.address: service.chain.read(token.call("balanceOf", who.address)) for who in BETTORS}
    going.set()
    begun = time.monotonic()
    betting_all = asyncio.create_task(bettors(service, books, going))
    try:
        for _ in range(KILLS):
            await asyncio.sleep(chance.uniform(0.1, MAX_UP_SECONDS))
            assert not betting_all.done(), books.errors
            assert service.running["api"].alive(), service.log("api")[-3000:]
            await asyncio.to_thread(service.kill, "api")
            await asyncio.to_thread(service.start, "api")
    finally:
        going.clear()
        await betting_all
    staked = stakes(service)
    seconds = time.monotonic() - begun
    print(
        f"seed {seed}: {KILLS} kills in {seconds:.0f} s, {books.intended.total()} bets intended, {staked.total()} "
        f"stakes on the chain, {books.replays} answered by a repeated call, {books.unknown} by a ticket placed again"
    )
    assert books.errors == []
    assert staked == books.intended
    assert len(set(books.placed)) == books.intended.total() >= KILLS / 2, "there was too little to prove anything by"
    for who in BETTORS:
        left = service.chain.read(token.call("balanceOf", who.address))
        assert before[who.address] - left == books.spent[who.address.lower()], who.role


def stakes(service: AgentService) -> Counter[str]:
    """Count each wallet's stakes in the contract's logs."""
    (topic,) = (topic for topic, each in WALLET_EVENTS.items() if each.name == Staked.__name__)
    asked = {
        "fromBlock": "0x0",
        "toBlock": "latest",
        "address": service.chain.contracts.settlement.address,
        "topics": ["0x" + topic.hex()],
    }
    found: Counter[str] = Counter()
    for log in service.chain.ask("eth_getLogs", asked):
        topics = bytes.fromhex("".join(each[2:] for each in log["topics"]))
        event: Any = WALLET_EVENTS[topic].read(topics, bytes.fromhex(log["data"][2:]))
        found["0x" + event.wallet.hex()] += 1
    return found
