"""Old finished rows are deleted, except those that prevent duplicate transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.db.engine import connect
from core.outbox import Intent, IntentConflict, IntentRequest, IntentState, enqueue
from tests.support.genesis import Genesis
from tests.support.keeper_rig import Rig, body, rigged
from tests.support.outbox_history import history

pytestmark = pytest.mark.timeout(240)

BY_ANYBODY = {"chain_id": 4663, "group": "relay", "kind": "transfer", "to": "0x" + "11" * 20}


@pytest.fixture
def rig(local_genesis: Genesis, fresh_database_url: str, tmp_path: Path) -> Iterator[Rig]:
    with rigged(local_genesis, fresh_database_url, tmp_path, "stock") as running:
        yield running


def count(rig: Rig, table: str, where: str = "true") -> int:
    return int(rig.rows(f"SELECT count(*) FROM {table} WHERE {where}")[0][0])


def age(rig: Rig, days: int) -> None:
    rig.rows(
        "UPDATE outbox_intent SET state_at = state_at - make_interval(days => %s) "
        "WHERE state IN ('final', 'failed', 'replaced') RETURNING 1",
        days,
    )


async def asked(rig: Rig, request: IntentRequest) -> Intent:
    async with await connect(rig.database_url) as connection:
        return await enqueue(connection, request)


@pytest.mark.thorough
async def test_old_rows_are_thinned_out_and_the_service_keeps_working(rig: Rig) -> None:
    rig.start("indexer", "relayer")
    await rig.works()
    ours = IntentRequest(key="relay:a-bet", data=b"", value_wei=1, **BY_ANYBODY)  # type: ignore[arg-type]
    await asked(rig, ours)
    for _ in range(3):
        await rig.run("prices")
        rig.warp("stock", rig.now("stock") + 5)
    await rig.run("drill")
    alive = "state NOT IN ('final', 'failed', 'replaced')"
    await rig.until(lambda: count(rig, "outbox_intent") > 5 and not count(rig, "outbox_intent", alive), "the ends", 60)
    before = count(rig, "outbox_intent")

    age(rig, 60)
    assert (await rig.run("tidy")).actions == [], "what is younger than the bound is left alone"
    assert (await rig.run("tidy", dry_run=True, VPM_KEEPER_KEEP_DAYS="30")).actions == []
    assert count(rig, "outbox_intent", "is_thinned") == 0
    report = await rig.run("tidy", VPM_KEEPER_KEEP_DAYS="30")
    assert report.ok, body(report)

    assert sum(int(each.detail.split()[0]) for each in report.actions)

    # The bet's key stays for good, and says how it ended; nothing else of it does.
    kept = await asked(rig, ours)
    async with await connect(rig.database_url) as connection:
        assert (kept.state, kept.succeeded, await history(connection, kept.id)) == (IntentState.FINAL, True, [])
    with pytest.raises(IntentConflict):
        await asked(rig, IntentRequest(key=ours.key, value_wei=2, **BY_ANYBODY))  # type: ignore[arg-type]
    assert count(rig, "outbox_transaction") == count(rig, "outbox_history") == 0
    # What the keeper asked for is guarded by its attempts, and both are gone, but for the last of each lane.
    lanes = len(rig.rows("SELECT DISTINCT lane_id FROM outbox_intent WHERE lane_id IS NOT NULL"))
    left = count(rig, "outbox_intent", "key LIKE 'keeper:%%'")
    assert left <= lanes < before - 1, (left, lanes, before)
    assert count(rig, "keeper_attempt") == 0

    # All of it works on: the same subjects are asked for again, and the lanes know their nonces after a restart.
    rig.stop("relayer")
    rig.start("relayer")
    await rig.run("prices")
    await rig.until(lambda: count(rig, "keeper_attempt"), "new attempts")
    await rig.until(lambda: count(rig, "outbox_intent", "state = 'final' AND NOT is_thinned"), "a new end", 60)
    assert count(rig, "outbox_intent", "kind = 'noop' OR outcome <> 'succeeded'") == 0


async def test_a_refused_intent_that_was_thinned_stays_refused(rig: Rig) -> None:
    wanted = IntentRequest(key="again", data=b"\x01\x02\x03\x04", **BY_ANYBODY)  # type: ignore[arg-type]
    await asked(rig, wanted)
    rig.rows("UPDATE outbox_intent SET state = 'failed', reason = 'it would revert' RETURNING 1")
    age(rig, 100)
    await rig.run("tidy")
    assert rig.rows("SELECT data, is_thinned FROM outbox_intent") == [(b"", True)]
    with pytest.raises(IntentConflict):
        await asked(rig, IntentRequest(key="again", data=b"\x05", **BY_ANYBODY))  # type: ignore[arg-type]
    assert (await asked(rig, wanted)).refused
