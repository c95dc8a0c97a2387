"""Bets keep coming while the relayer is killed at random moments, or stopped and woken: each is mined exactly once.

Short by default. `VPM_TEST_LONG=1` runs the full drill: 20 a second for 10 minutes with 100 kills. `VPM_TEST_SECONDS`
sets another length. The seed is printed; `VPM_TEST_SEED` repeats it.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.outbox import Intent, IntentRequest, IntentState
from tests.conftest import StartAnvil
from tests.support.relayer_rig import ETHER, Relayers, Rig, relayer_processes, rigged
from tests.waiting import until

LONG = os.environ.get("VPM_TEST_LONG") == "1"
SECONDS = float(os.environ.get("VPM_TEST_SECONDS", "600" if LONG else "25"))
RATE = 20
SECONDS_PER_KILL = 6.0
WAIT = 90.0  # for what takes a few on an idle machine


@pytest.fixture
async def relayers(fresh_database_url: str, anvil: StartAnvil, tmp_path: Path) -> AsyncIterator[Relayers]:
    chain = anvil(chain_id=8453, block_time_seconds=1)
    async with rigged(fresh_database_url, chain.url, 8453) as rig, relayer_processes(rig, tmp_path) as made:
        yield made


async def bets(
    rig: Rig, rate: int, *, seconds: float = math.inf, end: asyncio.Event | None = None
) -> list[tuple[Intent, IntentRequest]]:
    """Request `rate` transactions a second, whether or not a relayer is up, for `seconds` or until `end`."""
    accepted: list[tuple[Intent, IntentRequest]] = []
    loop = asyncio.get_running_loop()
    started = loop.time()
    for number in itertools.count():
        if number >= seconds * rate or (end is not None and end.is_set()):
            break
        await asyncio.sleep(max(0.0, started + number / rate - loop.time()))
        request = rig.transfer(priority=number % 2)
        accepted.append((await rig.ask_for(request), request))
    return accepted


async def all_mined_exactly_once(rig: Rig, accepted: list[tuple[Intent, IntentRequest]], seconds: float) -> None:
    """Check that every accepted intent is final, every recipient got one wei, and every lane's balance adds up."""

    async def ended() -> bool:
        return await rig.rows("SELECT count(*) FROM outbox_intent WHERE state <> 'final'") == [(0,)]

    await until(ended, "the end of every intent", seconds)
    found = []
    for start in range(0, len(accepted), 500):
        found += await rig.balances([request.to for _, request in accepted[start : start + 500]])
    assert found == [1] * len(accepted)
    async with rig.pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT l.address, count(*), sum(i.value_wei + i.fee_wei), max(i.nonce), count(DISTINCT i.nonce) "
            "FROM outbox_intent i JOIN outbox_lane l ON l.id = i.lane_id GROUP BY l.address"
        )
        lanes = {bytes(row[0]): row[1:] for row in await cursor.fetchall()}
    for signer in rig.signers:
        if signer.address not in lanes:
            continue
        count, spent, highest, nonces = lanes[signer.address]
        assert count == nonces == highest + 1 == await rig.nonce(signer)
        assert await rig.balance("0x" + signer.address.hex()) == 100 * ETHER - int(spent)


@pytest.mark.timeout(60 + 4 * SECONDS)
@pytest.mark.thorough
async def test_every_bet_is_mined_exactly_once_however_often_the_relayer_is_killed(relayers: Relayers) -> None:
    seed = int(os.environ.get("VPM_TEST_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    process = relayers.start()
    betting = asyncio.create_task(bets(relayers.rig, RATE, seconds=SECONDS))
    kills = 0
    while not betting.done():
        await asyncio.wait((betting,), timeout=chance.uniform(0.5, 2 * SECONDS_PER_KILL - 0.5))
        if not betting.done():
            assert process.poll() is None, f"the relayer ended unexpectedly:\n{relayers.log_of(process)}"
            relayers.kill(process)
            kills += 1
            process = relayers.start()
    accepted = betting.result()
    await all_mined_exactly_once(relayers.rig, accepted, seconds=40 + SECONDS / 5)
    print(f"{len(accepted)} bets, {kills} kills")
    assert kills >= SECONDS / (2 * SECONDS_PER_KILL) - 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 0, relayers.log_of(process)


@pytest.mark.thorough
async def test_a_relayer_that_wakes_after_a_takeover_does_no_harm(relayers: Relayers) -> None:
    rig = relayers.rig
    sleeper = relayers.start()
    enough = asyncio.Event()
    betting = asyncio.create_task(bets(rig, RATE, end=enough))

    async def works() -> bool:
        ((count,),) = await rig.rows("SELECT count(*) FROM outbox_intent WHERE state IN ('mined', 'final')")
        return bool(count > 20)

    async def holders() -> set[object]:
        return {holder for (holder,) in await rig.rows("SELECT holder FROM outbox_lane")}

    await until(works, "the first relayer at work", WAIT)
    sleeper.send_signal(signal.SIGSTOP)
    asleep = await holders()
    other = relayers.start()

    async def taken_over() -> bool:
        return asleep.isdisjoint(await holders())

    async def lost() -> bool:
        said = await asyncio.to_thread(relayers.log_of, sleeper)
        return "relayer.lane_taken" in said or "relayer.lease_expired" in said

    try:
        await until(taken_over, "the takeover of both lanes", WAIT)
    except AssertionError as late:
        raise AssertionError(f"{late}:\n{relayers.log_of(other)}") from late
    await asyncio.sleep(2)
    sleeper.send_signal(signal.SIGCONT)
    await until(lost, "what a sleeper sees when it wakes", WAIT)
    enough.set()
    accepted = await betting
    await all_mined_exactly_once(rig, accepted, WAIT)
    assert sleeper.poll() is None, relayers.log_of(sleeper)
    assert other.poll() is None, relayers.log_of(other)
    assert await rig.rows("SELECT count(*) FROM outbox_intent WHERE state <> 'final'") == [(0,)]
    assert {intent.state for intent, _ in accepted} == {IntentState.QUEUED}
