"""Agent markets with nobody at the wheel: observed, listed, settled early and late, voided, paid."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.local.process import free_port
from core.market_document import MarketDocument
from core.mirror.bet import market_key
from keeper.desk import abi
from keeper.report import Report
from scripts._stack import wallets
from tests.support.genesis import Genesis
from tests.support.keeper_rig import Rig, rigged
from tests.support.keeper_stakes import stake, usdc, wallet_address

pytestmark = pytest.mark.timeout(300)

DOLLAR = 10**6
ANN, BEN, CAT = wallets.DEV[:3]


@pytest.fixture
def rig(local_genesis: Genesis, fresh_database_url: str, tmp_path: Path) -> Iterator[Rig]:
    with rigged(local_genesis, fresh_database_url, tmp_path, "base") as running:
        yield running


def markets(rig: Rig, series: str) -> list[tuple[Any, ...]]:
    query = (
        "SELECT slug, document, closes_at, start_at, target, status, winner, void_reason FROM agent_market "
        "WHERE document->>'series' = %s ORDER BY closes_at, slug"
    )
    return rig.rows(query, series)


def one(rig: Rig, slug: str) -> tuple[Any, ...]:
    return rig.rows("SELECT status, winner, void_reason FROM agent_market WHERE slug = %s", slug)[0]


def observe(rig: Rig, key: str, value: int) -> None:
    """A round on an observation feed at the chain's present time, 8 decimals."""
    feed = next(each for each in rig.deployment("base").observation_feeds if each.key == key)
    data = abi("ObservationFeed").function("post").encode(value, rig.now("base"))
    rig.send("base", wallets.PUBLISHER.address, feed.address, data)


async def test_series_are_listed_settled_and_paid_unattended(rig: Rig) -> None:
    rig.start("indexer", "relayer", "keeper", VPM_KEEPER_SWEEP_FROM_UNITS="1", VPM_KEEPER_ROUND_SECONDS="3600")
    count = "SELECT count(*) FROM agent_market"
    # Three tokens: four standing series and a round each, and short rounds of the first.
    await rig.until(lambda: rig.rows(count)[0][0] >= 16, "sixteen markets", 60)
    every = [row for series in ("touch", "day", "far", "ladder", "hour", "quick") for row in markets(rig, series)]
    for slug, document, *_ in every:
        parsed = MarketDocument.parse(document)
        assert parsed.id == slug
        raw = rig.rows("SELECT metadata, market_id FROM agent_market WHERE slug = %s", slug)[0]
        assert raw[0] == parsed.canonical()
        assert bytes(raw[1]) == market_key(slug)
    assert {len(row[1]["outcomes"]) for row in markets(rig, "ladder")} == {5, 8, 7}
    assert len(markets(rig, "quick")) >= 1

    # A target that is reached settles at once, although its deadline is far; the keeper finds the round.
    touch = next(row for row in markets(rig, "touch") if row[0].startswith("bnkr"))
    before = {each.address: usdc(rig, each.address) for each in (ANN, BEN)}
    stake(rig, ANN, touch[0], 0, 40 * DOLLAR, "a-first-key")
    stake(rig, BEN, touch[0], 1, 60 * DOLLAR, "b-first-key")
    rig.stop("keeper")  # its own walk would race this test to the target
    observe(rig, "BNKR/market_cap", int(touch[4]) + 1)
    rig.warp("base", rig.now("base") + 3)
    rig.start("keeper", VPM_KEEPER_SWEEP_FROM_UNITS="1")
    await rig.until(lambda: one(rig, touch[0])[:2] == (2, 0), "the early resolution")
    await rig.until(lambda: usdc(rig, ANN.address) > before[ANN.address], "the payout")
    assert usdc(rig, BEN.address) == before[BEN.address] - 60 * DOLLAR
    assert usdc(rig, ANN.address) == before[ANN.address] - 40 * DOLLAR + 98 * DOLLAR  # the pool less 2%, hers alone

    # A round whose end nobody observed is void, after a quarter of an hour and two reads.
    round_ = next(row for row in markets(rig, "hour") if row[0].startswith("aixbt"))
    stake(rig, CAT, round_[0], 0, 25 * DOLLAR, "c-first-key")
    held = usdc(rig, CAT.address)
    rig.stop("keeper")
    rig.warp("base", round_[2] + 600 + 30)  # the keeper sleeps through it: no reading within its bound
    rig.start("keeper", VPM_KEEPER_SWEEP_FROM_UNITS="1")
    sighted = f"SELECT 1 FROM keeper_sighting WHERE subject = 'agent:stale:0x{market_key(round_[0]).hex()}'"
    await rig.until(lambda: rig.rows(sighted), "a first read")
    assert one(rig, round_[0])[0] == 1, "one stale read voids nothing"
    rig.warp("base", round_[2] + 600 + 15 * 60 + 2)
    await rig.until(lambda: one(rig, round_[0]) == (3, None, 1), "the void")
    await rig.until(lambda: usdc(rig, CAT.address) == held + 25 * DOLLAR, "the refund")
    await rig.until(lambda: rig.rows("SELECT 1 FROM agent_fee_sweep"), "a sweep of fees")

    open_, unpaid, fees = _liabilities(rig)
    assert unpaid == 0
    assert usdc(rig, wallet_address(rig)) == open_ + unpaid + fees
    # What was under way while the clock leapt came too late; nothing that settles or pays ever reverts.
    reverted = "SELECT key FROM outbox_intent WHERE outcome = 'reverted' AND kind NOT IN ('observe', 'list')"
    assert rig.rows(reverted) == []


def _liabilities(rig: Rig) -> tuple[int, int, int]:
    data = abi("SettlementWallet").function("liabilities").encode()
    answer = rig.ask("base", "eth_call", {"to": wallet_address(rig), "data": "0x" + data.hex()}, "latest")
    return tuple(int(answer[2 + at : 66 + at], 16) for at in (0, 64, 128))  # type: ignore[return-value]


async def test_the_canary_tells_a_living_service_from_a_dead_one(rig: Rig) -> None:
    """Through the real API, then without it. A rehearsal moves no money and reaches no outbox."""
    port = str(free_port())
    rig.extra = {"VPM_PORT": port, "VPM_PUBLIC_URL": f"http://127.0.0.1:{port}", "VPM_KEEPER_CANARY": "1"}
    rig.start("indexer", "relayer", "keeper", VPM_KEEPER_CANARY="0")
    await rig.until(lambda: rig.rows("SELECT count(*) FROM agent_market")[0][0] >= 16, "markets", 60)
    rig.stop("keeper")
    rig.start("api")

    last: list[Report] = []
    for _ in range(60):
        last = [await rig.run("agent-canary")]
        if last[0].actions:
            break
        await asyncio.sleep(0.5)
    assert last[0].ok, last[0].errors
    (action,) = last[0].actions
    assert action.status == "ok"
    assert "shares for 1 USD" in action.detail
    assert rig.rows("SELECT 1 FROM outbox_intent WHERE kind IN ('settle', 'credit')") == []

    rig.stop("api")
    dead = await rig.run("agent-canary")
    assert not dead.ok
    assert "reached nobody" in dead.errors[0]
    off = await rig.run("agent-canary", VPM_KEEPER_CANARY="0")
    assert off.ok
    assert "VPM_KEEPER_CANARY" in off.skipped[0].reason
