"""`./vpm bench trade`: compares a paid POST /trade with a bare send, alternating between the two. A bare send is a
signed transfer whose receipt is polled every 5 ms. In the first part, a block is mined at once for each transaction, so
only our own time counts. In the second part, a block is mined every second, and trades begin at random moments. The
benchmark takes a minute and a half. `--quick` makes a tenth of the trades."""

from __future__ import annotations

import asyncio
import random
import secrets
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any

import aiohttp

from core.contracts.statuses import Form
from core.hexadecimal import hex_of
from core.money import USD
from relayer.signing import Fees, LocalSigner, Unsigned
from scripts._bench.harness import Figure, database, timed
from scripts._stack import wallets
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet, header, sign
from tests.support.genesis import chain, genesis

WARMUP = 6
TRADES = 60
TRADES_BETWEEN_BLOCKS = 20  # each takes two seconds and a half
PATIENCE_SECONDS = 240.0
BLOCK_MS = 1_000
TARGET_MS = 150.0
ASK_AGAIN_SECONDS = 0.005
MARKET = "bench"
GWEI = 10**9
# The API allows a wallet ten trades a minute.
PAYERS = [wallets.wallet(f"bench payer {number}") for number in range(40)]


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    share = 10 if quick else 1
    with _running(folder) as service:
        return asyncio.run(_measure(service, TRADES // share, TRADES_BETWEEN_BLOCKS // share))


async def _measure(service: AgentService, trades: int, trades_between_blocks: int) -> list[Figure]:
    what = "payment to receipt, ms"
    async with asyncio.timeout(PATIENCE_SECONDS), aiohttp.ClientSession() as session:
        bench = TradeBench(service, session)
        await bench.prepare()
        await bench.medians(WARMUP)
        trade, bare = await bench.medians(trades)
        immediate = Figure(f"immediate blocks: {what}", trade, bare, most=TARGET_MS)
        await asyncio.to_thread(service.chain.ask, "evm_setIntervalMining", BLOCK_MS // 1_000)
        await asyncio.sleep(2)
        trade, bare = await bench.medians(trades_between_blocks, longest_pause=1.0)
        return [immediate, Figure(f"a block a second: {what}", trade, bare, most=TARGET_MS + BLOCK_MS)]


class TradeBench:
    def __init__(self, service: AgentService, session: aiohttp.ClientSession) -> None:
        self._service = service
        self._buyer = Buyer(session, service)
        self._session = session
        self._sender = LocalSigner(secrets.token_bytes(32))
        self._numbers = count()

    async def prepare(self) -> None:
        played = self._service.chain
        await asyncio.to_thread(played.list, MARKET, virtual=2_000 * USD)
        for each in PAYERS:
            await asyncio.to_thread(played.give, each.address, 1_000 * USD)
        await asyncio.to_thread(played.ask, "anvil_setBalance", hex_of(self._sender.address), hex(10**20))
        await self._buyer.shows(MARKET, seconds=60)
        while not (await self._buyer.get("/health"))[1]["health"]["ok"]:
            await asyncio.sleep(0.1)

    async def medians(self, trades: int, longest_pause: float = 0.0) -> tuple[float, float]:
        """Return the median milliseconds of trades and of bare sends. If `longest_pause` (in seconds) is above 0, each
        starts after a random pause of at most that length."""
        trade: list[float] = []
        bare: list[float] = []
        for number in islice(self._numbers, trades):
            body, payment = await self._payment(number)
            await asyncio.sleep(random.random() * longest_pause)
            with timed(trade):
                response, paid = await self._buyer.post(body, headers=payment)
            if response.status != 200:
                raise RuntimeError(f"no receipt: {paid}")
            made = Unsigned(8453, number, Fees(200 * GWEI, GWEI), 21_000, secrets.token_bytes(20), 1, b"")
            raw = self._sender.sign(made).raw
            await asyncio.sleep(random.random() * longest_pause)
            with timed(bare):
                sent = await self._ask("eth_sendRawTransaction", hex_of(raw))
                while await self._ask("eth_getTransactionReceipt", sent) is None:
                    await asyncio.sleep(ASK_AGAIN_SECONDS)
        return statistics.median(trade), statistics.median(bare)

    async def _payment(self, number: int) -> tuple[dict[str, Any], dict[str, str]]:
        """Sign the payment for a trade. Every second payment uses the receive form."""
        who = PAYERS[number % len(PAYERS)]
        body = bet(MARKET, who, random.choice(("yes", "no")), 1 + number % 5)
        challenge = await self._buyer.challenged(body)
        return body, header(sign(challenge["accepts"][0], who, form=Form(number % 2)))

    async def _ask(self, method: str, *params: object) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self._session.post(self._service.chain.url, json=question) as response:
            answer = await response.json()
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]


@contextmanager
def _running(folder: Path) -> Iterator[AgentService]:
    saved = genesis()
    with database(folder) as url, chain(saved, "base", folder / "anvil.log") as base:
        played = AgentChain.on(base.url, base.deployment)
        poll = {"VPM_BASE_POLL_INTERVAL_MS": "200"}  # as in the local stack
        with agent_service(played, url, saved.deployments, folder, **poll) as service:
            service.start("indexer", "relayer", "api")
            yield service
