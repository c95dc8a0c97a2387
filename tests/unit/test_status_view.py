"""What `vpm status` makes of facts: a sentence for each problem, nothing if all is well."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from scripts._status.__main__ import DAEMONS, concerns

LANE = {
    "chain_id": 8453,
    "address": "0x" + "ab" * 20,
    "groups": ["relay"],
    "status": "ready",
    "detail": "",
    "holder": "host:1",
    "held": True,
    "balance_wei": str(15 * 10**17),
    "next_nonce": 7,
    "in_flight": 0,
}
WELL: dict[str, list[dict[str, Any]]] = {
    "daemons": [
        {
            "daemon": name,
            "instance": "host:1",
            "is_leader": True,
            "detail": {},
            "silent_seconds": 2,
        }
        for name in DAEMONS
    ],
    "chains": [
        {
            "chain_id": 8453,
            "name": "base",
            "state": "tail",
            "problem": None,
            "block": 100,
            "head": 100,
            "finalized": 36,
            "lag_blocks": 0,
            "head_silent_seconds": 1,
        }
    ],
    "lanes": [LANE],
    "queues": [
        {"chain_id": 8453, "lane_group": "relay", "kind": "settle", "state": "sent", "count": 1, "oldest_seconds": 2}
    ],
    "jobs": [{"job": "resolve", "ok": True, "every_seconds": 10.0, "age_seconds": 5, "errors": []}],
    "requested": [],
    "unconfirmed": [],
    "audits": [{"chain_id": 8453, "block": 90, "compared": 1000, "mismatches": 0, "age_seconds": 60}],
    "switches": [],
    "database": [{"connections": 5, "most_connections": 100}],
}


def test_nothing_needs_a_look_while_all_is_well() -> None:
    assert list(concerns(WELL)) == []


@pytest.mark.parametrize(
    ("section", "changes", "words"),
    [
        ("daemons", {"silent_seconds": 45}, "no api has reported"),
        ("daemons", {"is_leader": False}, "none is the leader"),
        (
            "chains",
            {"state": "halted", "problem": "a reorganization beyond finality"},
            "halted and its data is stale: a reo",
        ),
        ("chains", {"lag_blocks": 1234}, "1,234 blocks behind"),
        ("chains", {"head_silent_seconds": 300}, "no node of chain base has responded for 300 s"),
        ("lanes", {"status": "out_of_gas", "detail": "needs 0.02 ether"}, "is not signing: out_of_gas, needs 0.02"),
        ("lanes", {"held": False}, "no relayer holds"),
        ("queues", {"oldest_seconds": 4000}, "1 settle on 8453 are sent, the oldest for 4000 s"),
        ("queues", {"state": "queued", "oldest_seconds": 150}, "are queued"),
        ("jobs", {"ok": False, "errors": ["the feed is away"]}, "job resolve failed 5 s ago: the feed is away"),
        ("jobs", {"age_seconds": 2000}, "job resolve has not run for 2000 s"),
        ("audits", {"mismatches": 2}, "found 2 differences"),
        ("audits", {"age_seconds": 200_000}, "chain 8453 was last audited 55 hours ago"),
        ("database", {"connections": 99}, "99 of 100 database connections"),
    ],
)
def test_each_trouble_is_one_sentence(section: str, changes: dict[str, Any], words: str) -> None:
    bad = copy.deepcopy(WELL)
    for row in bad[section]:
        row.update(changes)
    assert any(words in one for one in concerns(bad)), list(concerns(bad))


def test_a_lane_whose_key_was_taken_away_needs_no_look_once_it_is_empty() -> None:
    gone = {**LANE, "status": "stopped", "held": False, "in_flight": 0}
    assert list(concerns({**WELL, "lanes": [LANE, gone]})) == []
    for changes in ({"in_flight": 1}, {"held": True}, {"status": "out_of_gas"}):
        assert list(concerns({**WELL, "lanes": [LANE, {**gone, **changes}]})), changes


def test_a_job_is_late_by_the_period_of_the_keeper_that_runs_it() -> None:
    for period, age, is_late in ((3_600.0, 3_000, False), (3_600.0, 11_000, True), (None, 90_000, False)):
        row = {"job": "resolve", "ok": True, "every_seconds": period, "age_seconds": age, "errors": []}
        assert bool(list(concerns({**WELL, "jobs": [row]}))) == is_late, (period, age)


def test_switches_and_requested_jobs_are_named() -> None:
    bad = {
        **WELL,
        "switches": [{"name": "trading_paused", "reason": "drill", "changed_by": "ops", "changed_at": "noon"}],
        "requested": [{"job": "resolve", "waiting_seconds": 300}],
    }
    assert list(concerns(bad)) == [
        "job resolve was requested 300 s ago and has not finished",
        "the switch trading_paused has been on since noon, set by ops: drill",
    ]
