"""Which payments a run of `agent-credit` checks: hardly any of those that were booked long ago."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from prometheus_client import REGISTRY

from core.chain import Call
from core.config import KeeperSettings, load
from core.contracts.abi import abi
from core.contracts.statuses import Form
from core.db.engine import make_engine, make_pool
from core.hexadecimal import hex_of
from core.outbox import CREDIT
from keeper import attempts, metrics
from keeper.agent.credit import credit, credit_function
from keeper.attempts import TransactionRequest
from keeper.run import IndexState, JobRun, Keeper, RunReport
from tests.support.cup_rig import settings_for

CHAIN = 84
DAY = 86_400
NOW = 100 * DAY
TOKEN, WALLET, PAYER = b"\x70" * 20, b"\x5e" * 20, b"\x11" * 20
AMOUNT = 4_000_000


class Payments:
    """A keeper whose chain books nothing and has no lane that would; `looked_at`: what the last run read."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.looked_at: list[bytes] = []
        self.booked: set[bytes] = set()
        self.finality_seconds = 0
        contract = SimpleNamespace(address=hex_of(WALLET), call=lambda name, payer, nonce: nonce)
        self.chain = SimpleNamespace(
            name="base",
            chain_id=CHAIN,
            contract=lambda name: contract,
            deployment=SimpleNamespace(token=lambda name: SimpleNamespace(address=hex_of(TOKEN))),
            client=SimpleNamespace(read_many=self._read, block=self._block),
        )

    async def _read(self, nonces: list[bytes], block: int) -> list[bool]:
        self.looked_at = nonces
        return [each in self.booked for each in nonces]

    async def _block(self, number: int) -> Any:
        return SimpleNamespace(timestamp=number - self.finality_seconds)

    async def arrives(self, nonce: bytes, at: int) -> None:
        """Add a payment that its payer offered to the API and then used outside it."""
        bet: tuple[tuple[str, object], ...] = (
            ("marketId", b"\x01" * 32),
            ("outcome", 0),
            ("amount", AMOUNT),
            ("minShares", 0),
            ("wallet", hex_of(PAYER)),
        )
        bet += ("idemHash", nonce), ("builder", "0x" + "00" * 20), ("ref", bytes(32))
        given: tuple[tuple[str, object], ...] = (
            ("form", int(Form.TRANSFER)),
            ("value", AMOUNT),
            ("validAfter", 0),
            ("validBefore", 2**40),
        )
        given += ("nonce", nonce), ("signature", b"\x01" * 65)
        arguments = abi("SettlementWallet").function("credit").encode(dict(bet), dict(given))[4:]
        async with self.keeper.pool.connection() as connection:
            await connection.execute(
                "INSERT INTO token_authorization VALUES (%s, %s, %s, %s, 'paid', %s, %s, %s, 0, %s, %s)",
                (CHAIN, PAYER, nonce, TOKEN, WALLET, AMOUNT, at // 10, at, nonce),
            )
            await connection.execute(
                "INSERT INTO agent_authorization VALUES (%s, %s, %s, %s, %s, %s)",
                (PAYER, nonce, nonce, nonce, AMOUNT, arguments),
            )

    async def run(self, now: int = NOW) -> None:
        report = RunReport("agent-credit", datetime.now(UTC))
        index = IndexState(number=now, time=now, l1_number=now, state="tail", finalized=now)
        await credit(JobRun(self.keeper, cast(Any, self.chain), report, now, now, index))
        assert report.ok, report.errors


def measured(name: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"job": "agent-credit", "what": "payments"})


@pytest.fixture
async def payments(fresh_database_url: str) -> AsyncIterator[Payments]:
    metrics.clear_state()  # what other tests of this process left
    engine, settings = make_engine(fresh_database_url), settings_for(fresh_database_url)
    async with make_pool(fresh_database_url, size=2, autocommit=True) as pool, aiohttp.ClientSession() as http:
        yield Payments(Keeper(settings, load(KeeperSettings, {}), pool, engine, http, {}))
    await engine.dispose()


async def test_old_booked_payments_are_checked_once_an_hour(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 10_000.0
    monkeypatch.setattr("time.monotonic", lambda: clock)
    old, young = b"\x01" * 32, b"\x02" * 32
    await payments.arrives(old, NOW - 30 * DAY)
    await payments.arrives(young, NOW - DAY)
    payments.booked = {old, young}
    for at, expected in ((0, [young, old]), (15, [young]), (3_585, [young]), (3_600, [young, old]), (3_615, [young])):
        clock = 10_000.0 + at
        await payments.run()
        assert payments.looked_at == expected, at
    payments.keeper.memory.clear()  # another keeper led in between
    await payments.run()
    assert payments.looked_at == [young, old]


async def test_due_payments_are_checked_however_old(payments: Payments) -> None:
    old, young, done = b"\x01" * 32, b"\x02" * 32, b"\x03" * 32
    await payments.arrives(done, NOW - 40 * DAY)
    await payments.arrives(old, NOW - 30 * DAY)
    await payments.arrives(young, NOW - DAY)
    payments.booked = {done}
    for days in (0, 5, 6, 7, 60):  # all within an hour of the keeper's
        await payments.run(NOW + days * DAY)
        assert measured("vpm_keeper_due") == 2
    assert payments.looked_at == [young, old]
    payments.booked.add(old)
    await payments.run(NOW + 61 * DAY)
    await payments.run(NOW + 61 * DAY)
    assert (measured("vpm_keeper_due"), payments.looked_at) == (1, [young])


async def test_a_payment_keeps_its_age_when_leaders_change(payments: Payments) -> None:
    await payments.arrives(b"\x01" * 32, NOW)
    for at in range(0, 1_800, 300):
        metrics.clear_state()  # the former leader's
        payments.keeper.memory.clear()
        await payments.run(NOW + at)
        assert measured("vpm_keeper_due_oldest_seconds") == at
    payments.finality_seconds = 1_400  # what is not final yet is not late
    await payments.run(NOW + 1_500)
    assert measured("vpm_keeper_due_oldest_seconds") == 100


@pytest.mark.parametrize("code", ["NotSignedBy", "UnknownMarket", "AmountOutOfBounds", "MissingRole"])
async def test_permanent_refusals_raise_no_alarm(payments: Payments, code: str) -> None:
    """A dollar, and a contract that says no once it has paid; while we try again, it is no younger."""
    nonce = b"\x01" * 32
    await payments.arrives(nonce, NOW - DAY)
    key = f"agent:credit:{hex_of(PAYER)}:{hex_of(nonce)}"
    async with payments.keeper.pool.connection() as connection:
        call = Call(hex_of(WALLET), b"\x01", credit_function())
        made = await attempts.submit(
            connection, CHAIN, TransactionRequest("credit", (key,), "t", "d", call, CREDIT), {}
        )
        assert made is not None
        expected = 1 if code == "MissingRole" else 0
        for state, said in (("failed", code), ("queued", None)):
            await connection.execute(
                "UPDATE outbox_intent SET state = %s, reason_code = %s, reason = %s WHERE id = %s",
                (state, said, said, made.id),
            )
            await payments.run()
            assert measured("vpm_keeper_due") == expected, state
    unproven = {"job": "agent-credit", "what": "unproven payments"}
    assert REGISTRY.get_sample_value("vpm_keeper_due", unproven) == 1 - expected
