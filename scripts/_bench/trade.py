"""`./vpm bench trade`: how long a paid POST /trade takes, against bare sends on the same chain in the same run.

The API, the relayer and the indexer are the real daemons over PostgreSQL with its durable settings. Every other payment
is in the receive form. The bare send is the least anybody could do: a transfer signed beforehand goes to the node, and
its receipt is asked for every 5 ms. Both take turns. First a block is made for each transaction, so that waiting for
blocks costs nothing and what is left is ours; then a block a second, begun at random moments between blocks. Targets:
half of the trades within 150 ms where blocks are immediate, and within 150 ms plus the block time where they are not.
`--quick`: six trades instead of sixty.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from core.contracts.statuses import Form
from core.hexadecimal import hex_of
from core.money import USD
from relayer.signing import Fees, LocalSigner, Unsigned
from scripts._bench.harness import Figure, database, ground, report
from scripts._stack import wallets
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet, header, sign
from tests.support.genesis import chain, genesis

WARM_UP = 6
BLOCK_MS = 1_000
TARGET_MS = 150.0
ASK_AGAIN_SECONDS = 0.005
MARKET = "bench"
GWEI = 10**9


@dataclass
class Laps:
    """The milliseconds from payment to receipt, and of bare sends."""

    trade: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)


class TradeBench:
    """The paid trades that are timed, and the wallets that make them."""

    def __init__(self, service: AgentService, session: aiohttp.ClientSession) -> None:
        self._service = service
        self._buyer = Buyer(session, service)
        self._session = session
        self._sender = LocalSigner(secrets.token_bytes(32))
        self._nonce = 0
        self._payers = [wallets.wallet(f"bench payer {number}") for number in range(40)]
        self._next = 0

    async def prepare(self) -> None:
        played = self._service.chain
        await asyncio.to_thread(played.list, MARKET, virtual=2_000 * USD)
        for each in self._payers:
            call = played.contracts.token.call("transfer", each.address, 1_000 * USD)
            await asyncio.to_thread(played.send, call, wallets.DEV[0].address)
        await asyncio.to_thread(played.ask, "anvil_setBalance", hex_of(self._sender.address), hex(10**20))
        await self._buyer.shows(MARKET, seconds=60)
        while not (await self._buyer.get("/health"))[1]["health"]["ok"]:
            await asyncio.sleep(0.1)

    async def laps(self, trades: int, *, at_random: bool) -> Laps:
        laps = Laps()
        for number in range(WARM_UP + trades):
            if number == WARM_UP:
                laps = Laps()
            await self._trade(laps, at_random=at_random)
            if at_random:
                await asyncio.sleep(random.random())
            await self._bare(laps)
        return laps

    async def _trade(self, laps: Laps, *, at_random: bool) -> None:
        who = self._payers[self._next % len(self._payers)]  # a wallet trades at most ten times a minute
        self._next += 1
        body = bet(MARKET, who, random.choice(("yes", "no")), 1 + self._next % 5)
        response, challenge = await self._buyer.post(body)
        if response.status != 402:
            raise RuntimeError(f"no challenge: {challenge}")
        form = Form(self._next % 2)
        payment = header(sign(challenge["accepts"][0], who, now=int(time.time()), form=form))
        if at_random:
            await asyncio.sleep(random.random())
        with timed(laps.trade):
            response, paid = await self._buyer.post(body, headers=payment)
        if response.status != 200:
            raise RuntimeError(f"no receipt: {paid}")

    async def _bare(self, laps: Laps) -> None:
        made = Unsigned(8453, self._nonce, Fees(200 * GWEI, GWEI), 21_000, secrets.token_bytes(20), 1, b"")
        raw = self._sender.sign(made).raw
        self._nonce += 1
        with timed(laps.bare):
            sent = await self._ask("eth_sendRawTransaction", hex_of(raw))
            while await self._ask("eth_getTransactionReceipt", sent) is None:
                await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _ask(self, method: str, *params: object) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        async with self._session.post(self._service.chain.url, json=question) as response:
            answer = await response.json()
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]


@contextlib.contextmanager
def timed(laps: list[float]) -> Iterator[None]:
    started = time.perf_counter()
    yield
    laps.append((time.perf_counter() - started) * 1_000)


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[AgentService]:
    saved = genesis()
    with database(folder) as url, chain(saved, "base", folder / "anvil.log") as base:
        played = AgentChain.on(base.url, base.deployment)
        env = {"VPM_BASE_WS_URLS": base.ws_url, "VPM_BASE_POLL_INTERVAL_MS": "200"}  # as in the local stack
        with agent_service(played, url, saved.deployments, folder, **env) as service:
            service.start("indexer", "relayer", "api")
            yield service


async def _measure(service: AgentService, trades: int) -> tuple[Laps, Laps]:
    async with aiohttp.ClientSession() as session:
        bench = TradeBench(service, session)
        await bench.prepare()
        immediate = await bench.laps(trades, at_random=False)
        await asyncio.to_thread(service.chain.ask, "evm_setIntervalMining", BLOCK_MS // 1_000)
        await asyncio.sleep(2)
        return immediate, await bench.laps(trades, at_random=True)


def main(*, quick: bool) -> int:
    with ground("trade") as folder, _running(folder) as service:
        measured = asyncio.run(_measure(service, 6 if quick else 60))
    rows = []
    for blocks, laps, wait in zip(("immediate blocks", "a block a second"), measured, (0, BLOCK_MS), strict=True):
        ours, bare = statistics.median(laps.trade), statistics.median(laps.bare)
        rows.append(Figure(f"{blocks}: payment to receipt, ms", ours, bare, most=TARGET_MS + wait))
    return report("trade", rows)
