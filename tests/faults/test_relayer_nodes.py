"""A node that loses answers, refuses, lags and lies dead for a while: unknown is never failed, and nothing lands twice.

Between relayer and chain stands a proxy that misbehaves on purpose, at random from a printed seed
(`VPM_TEST_SEED` repeats it).
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from eth_utils.crypto import keccak

from core.hexadecimal import bytes_of, hex_of
from core.outbox import Intent, IntentRequest, IntentState, MinedOutcome
from relayer.feed import ChainFeed
from tests.conftest import StartAnvil
from tests.support.relayer_rig import QUICK, Rig, rigged
from tests.support.serving import serving

SEED = int(os.environ.get("VPM_TEST_SEED", random.randrange(2**32)))


@dataclass
class BadNode:
    """A proxy before a real chain. The rates are chances per request; `lag` hides that many newest blocks."""

    target: str
    chance: random.Random
    lost_answers: float = 0.0  # the chain did it, nobody hears of it
    loses_sends: bool = False  # the same for every transaction, and for nothing else
    swallows: bool = False  # a transaction is answered with its hash and passed on to nobody
    refusals: float = 0.0  # 503 before the chain is asked
    rate_limits: float = 0.0  # 429 likewise
    dead: bool = False
    lag: int = 0
    url: str = ""
    counts: dict[str, int] = field(default_factory=dict)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if self.dead:
            return self._drop(request, "dead")
        if self.chance.random() < self.refusals:
            self._count("refused")
            return web.Response(status=503)
        if self.chance.random() < self.rate_limits:
            self._count("rate limited")
            return web.Response(status=429, headers={"Retry-After": "0.2"})
        if self.swallows and b"eth_sendRawTransaction" in body:
            self._count("swallowed")
            return self._swallowed(orjson.loads(body))
        async with aiohttp.ClientSession() as session:
            if self.lag and b'"latest"' in body and b"eth_getBlockByNumber" in body:
                body = await self._older(session, body)
            headers = {"Content-Type": "application/json"}
            async with session.post(self.target, data=body, headers=headers) as response:
                answer = await response.read()
        if self.chance.random() < self.lost_answers or (self.loses_sends and b"eth_sendRawTransaction" in body):
            return self._drop(request, "lost")
        return web.Response(body=answer, content_type="application/json")

    def _swallowed(self, asked: Any) -> web.Response:
        calls = asked if isinstance(asked, list) else [asked]
        answers = [
            {"jsonrpc": "2.0", "id": call["id"], "result": hex_of(keccak(bytes_of(call["params"][0])))}
            for call in calls
        ]
        return web.json_response(answers if isinstance(asked, list) else answers[0])

    async def _older(self, session: aiohttp.ClientSession, body: bytes) -> bytes:
        ask = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}
        async with session.post(self.target, json=ask) as response:
            head = int((await response.json())["result"], 16)
        return body.replace(b'"latest"', b'"%s"' % hex(max(0, head - self.lag)).encode())

    def _drop(self, request: web.Request, why: str) -> web.Response:
        self._count(why)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


@pytest.fixture
async def node(anvil: StartAnvil) -> AsyncIterator[BadNode]:
    chain = anvil(chain_id=31339, block_time_seconds=0.5)
    node = BadNode(chain.url, random.Random(SEED))
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/", node.handle)
    async with serving(app) as node.url:
        yield node


@pytest.fixture
async def rig(fresh_database_url: str, node: BadNode) -> AsyncIterator[Rig]:
    """The rig itself speaks to the chain directly; only its relayers meet the bad node."""
    async with rigged(fresh_database_url, node.target, 31339) as rig:
        yield replace(rig, rpc_url=node.url)


@pytest.mark.thorough
async def test_lost_answers_refusals_and_rate_limits_lose_and_double_nothing(rig: Rig, node: BadNode) -> None:
    print(f"seed {SEED}")
    node.lost_answers, node.refusals, node.rate_limits = 0.05, 0.05, 0.02
    signers = [await rig.new_signer() for _ in range(2)]
    policy = replace(QUICK, batch_size=20, rpc_batch_size=4)
    requests: list[IntentRequest] = []
    asked: list[Intent] = []
    async with rig.relayer(*(rig.spec(each) for each in signers), policy=policy):
        # As many as it takes: a busy machine puts more of them into one call, so fewer calls go wrong.
        while len(asked) < 150 or not all(node.counts.get(each, 0) > 3 for each in ("lost", "refused")):
            assert len(asked) < 1_500, node.counts
            some = [rig.transfer() for _ in range(30)]
            requests += some
            asked += await rig.ask_for_many(some)
            # The calls of these are made, however slow the machine is, and the others' are under way.
            await rig.reaches(asked[-len(some)], IntentState.MINED, IntentState.FINAL)
        done = [await rig.reaches(each, IntentState.FINAL) for each in asked]
        node.lost_answers = node.refusals = node.rate_limits = 0.0  # so that the lanes can be given back
    assert [each.outcome for each in done] == [MinedOutcome.SUCCEEDED] * len(asked)
    assert await rig.balances([each.to for each in requests]) == [1] * len(requests)


async def test_a_send_whose_answer_is_lost_is_pending_and_found_by_its_receipt(rig: Rig, node: BadNode) -> None:
    signer = await rig.new_signer()
    async with rig.relayer(rig.spec(signer)):
        await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.MINED)
        node.loses_sends = True
        request = rig.transfer(simulate=False)
        asked = await rig.ask_for(request)
        offered = await rig.reaches(asked, IntentState.SENT)
        assert offered.tx_hash is not None
        done = await rig.reaches(asked, IntentState.MINED, IntentState.FINAL)
    assert node.counts["lost"] > 0
    assert done.tx_hash == offered.tx_hash
    assert await rig.balance(request.to) == 1
    assert await rig.nonce(signer) == 2


async def test_what_the_first_url_takes_and_loses_reaches_the_chain_through_the_second(rig: Rig, node: BadNode) -> None:
    signer = await rig.new_signer()
    node.swallows = True
    requests = [rig.transfer() for _ in range(3)]
    async with replace(rig, more_urls=(node.target,)).relayer(rig.spec(signer)):
        for each in await rig.ask_for_many(requests):
            await rig.reaches(each, IntentState.FINAL, seconds=20.0)
    assert node.counts["swallowed"] > 0
    assert await rig.balances([each.to for each in requests]) == [1] * 3


@pytest.mark.thorough
async def test_a_dead_node_stops_nothing_but_time(rig: Rig, node: BadNode) -> None:
    signer = await rig.new_signer()
    requests = [rig.transfer() for _ in range(20)]
    async with rig.relayer(rig.spec(signer)):
        first = await rig.ask_for_many(requests[:10])
        node.dead = True
        second = await rig.ask_for_many(requests[10:])
        await asyncio.sleep(4)
        assert not any([(await rig.read(each)).state.ended for each in second])
        node.dead = False
        for each in (*first, *second):
            await rig.reaches(each, IntentState.FINAL)
    assert await rig.balances([each.to for each in requests]) == [1] * 20


async def test_a_node_that_falls_behind_is_no_reorg(rig: Rig, node: BadNode) -> None:
    async with rigged(rig.database_url, node.url, 31339) as behind:
        feed = ChainFeed(behind.client, "test", 31339, finality_blocks=8, poll_seconds=0.1)
        await feed.poll()
        await rig.mine(6)
        await feed.poll()
        head = feed.head
        await rig.mine(1)
        node.lag = 4
        await feed.poll()
        assert feed.head.number >= head.number
        node.lag = 0
        await rig.mine(3)
        await feed.poll()
        assert feed.head.number > head.number
        assert feed.reorgs == 0
        assert await feed.hashes_of([head.number]) == {head.number: head.hash}
