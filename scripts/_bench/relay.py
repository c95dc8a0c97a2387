"""`./vpm bench relay`: compares one lane of the relayer with a bare loop that sends presigned transactions one at a
time and stores nothing. The relayer starts with queued intents and finishes when every receipt is recorded. A block is
mined every 250 ms, as on the stock chain. `--quick` runs one round with 2,000 transactions."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from dataclasses import replace
from pathlib import Path

import aiohttp
import uvloop

from core.chain import ChainClient
from core.db.engine import make_pool
from core.hexadecimal import hex_of
from core.outbox import IntentWatch
from relayer.policy import FeePolicy, LanePolicy, Patience
from scripts._bench.harness import Figure, database, local_chain
from scripts._local.anvil import AnvilOptions
from scripts._local.ports import free_port
from tests.support.relayer_rig import GWEI, Rig

TARGET = 0.75
BLOCK_SECONDS = 0.25
PAYEE = b"\x09" * 20  # the same for all: anvil keeps every account of every block
CHAIN_ID = 31337
LANE_SECONDS = 600.0  # it takes ten, but if the relayer fails it would wait for ever
POLICY = LanePolicy(
    fees=FeePolicy(cap_wei=1000 * GWEI),
    patience=Patience(resend_after_seconds=10.0, bump_after_seconds=30.0),
    max_in_flight=4096,
    batch_size=400,
    rpc_batch_size=100,
    gas_per_hour_wei=10**24,
)


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    count, rounds = (2_000, 1) if quick else (20_000, 3)
    return uvloop.run(_measure(folder, count, rounds))  # as the daemon does


async def _measure(folder: Path, count: int, rounds: int) -> list[Figure]:
    options = AnvilOptions(CHAIN_ID, free_port(), block_time_seconds=BLOCK_SECONDS, gas_limit=500_000_000)
    with database(folder) as url:
        async with local_chain(folder, options) as (rpc_url, rpc), make_pool(url, size=2, autocommit=True) as pool:
            watch = IntentWatch(url, pool)  # not entered: only the relayer should listen
            rig = Rig(url, rpc_url, CHAIN_ID, pool, ChainClient(rpc), watch, 64, poll_seconds=0.2, policy=POLICY)
            await _lane(rig, count)
            turns = [(await _bare_loop(rig, count), await _lane(rig, count)) for _ in range(rounds)]
    bare, lane = map(statistics.median, zip(*turns, strict=True))
    return [
        Figure("one lane, transactions/s", lane, bare, least_ratio=TARGET),
    ]


async def _bare_loop(rig: Rig, count: int) -> float:
    signer = await rig.new_signer(ether=10**6)
    send = b'{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x%s"]}'
    signed = [rig.sign(signer, nonce, to=PAYEE, gwei=200) for nonce in range(count)]
    bodies = [send % raw.hex().encode() for raw in signed]
    async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:
        started = time.perf_counter()
        for body in bodies:
            async with session.post(rig.rpc_url, data=body) as response:
                if b'"result"' not in await response.read():
                    raise RuntimeError("the chain refused a transaction of the bare loop")
        rate = count / (time.perf_counter() - started)
    while await rig.nonce(signer) < count:
        await asyncio.sleep(0.1)
    return rate


async def _lane(rig: Rig, count: int) -> float:
    """Relay queued intents on one lane until every receipt is recorded. Return the number of intents per second."""
    signer, group = await rig.new_signer(ether=10**6), f"bench-{secrets.token_hex(4)}"
    intent = rig.transfer(group=group, kind="bench", to=hex_of(PAYEE))
    await rig.ask_for_many([replace(intent, key=secrets.token_hex(16)) for _ in range(count)])
    async with asyncio.timeout(LANE_SECONDS), rig.relayer(rig.spec(signer, group), lease_seconds=15.0):
        started = time.perf_counter()
        while await _has_unfinished(rig, group):
            await asyncio.sleep(0.05)
        return count / (time.perf_counter() - started)


async def _has_unfinished(rig: Rig, group: str) -> bool:
    """Return whether any intent still has no recorded receipt. The query uses indexes, so it does not slow down the
    relayer."""
    async with rig.pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT EXISTS (SELECT FROM outbox_intent WHERE state = 'queued' AND chain_id = %(chain)s"
            " AND lane_group = %(group)s) OR EXISTS (SELECT FROM outbox_intent i JOIN outbox_lane l"
            " ON l.id = i.lane_id WHERE i.state IN ('signed', 'sent') AND l.groups = ARRAY[%(group)s])",
            {"chain": CHAIN_ID, "group": group},
        )
        return await cursor.fetchone() == (True,)
