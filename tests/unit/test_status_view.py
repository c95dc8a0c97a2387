"""What `vpm status` makes of facts: sentences for what needs a look, nothing where all is well."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from scripts._status.concerns import DAEMONS, ago, concerns
from scripts._status.facts import StatusFacts
from scripts._status.scrape import samples
from scripts._status.view import lines

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
            "silent_seconds": 2.0,
            "up_seconds": 60.0,
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
            "block_age_seconds": 2,
            "head_silent_seconds": 1.0,
            "reorgs_today": 0,
        }
    ],
    "lanes": [LANE],
    "queues": [
        {"chain_id": 8453, "lane_group": "relay", "kind": "settle", "state": "sent", "count": 1, "oldest_seconds": 2.0}
    ],
    "jobs": [
        {"job": "resolve", "ok": True, "age_seconds": 5.0, "acted_seconds": None, "took_seconds": 0.1, "errors": []}
    ],
    "asked": [],
    "audits": [{"chain_id": 8453, "block": 90, "compared": 1000, "mismatches": 0, "age_seconds": 60.0}],
    "switches": [],
    "database": [{"version": "18.4", "bytes": 10**7, "connections": 5, "most_connections": 100}],
}


def test_nothing_needs_a_look_while_all_is_well() -> None:
    facts = StatusFacts(WELL)
    assert concerns(facts) == []
    shown = "\n".join(lines(facts, []))
    assert "nothing needs a look" in shown
    assert "1.5" in shown  # ether


@pytest.mark.parametrize(
    ("section", "changes", "words"),
    [
        ("daemons", {"silent_seconds": 45.0}, "no api has shown a sign of life"),
        ("daemons", {"is_leader": False}, "none leads"),
        (
            "chains",
            {"state": "halted", "problem": "a reorganization beyond finality"},
            "halted and served stale: a reo",
        ),
        ("chains", {"lag_blocks": 1234}, "1,234 blocks behind"),
        ("chains", {"head_silent_seconds": 300.0}, "no node of chain base has answered for 5 min"),
        ("lanes", {"status": "out_of_gas", "detail": "needs 0.02 ether"}, "signs nothing: out_of_gas, needs 0.02"),
        ("lanes", {"held": False}, "held by no relayer"),
        ("queues", {"oldest_seconds": 4000.0}, "1 settle on 8453 are sent, the oldest for 67 min"),
        ("queues", {"state": "queued", "oldest_seconds": 150.0}, "are queued"),
        ("jobs", {"ok": False, "errors": ["the feed is away"]}, "job resolve failed 5 s ago: the feed is away"),
        ("jobs", {"age_seconds": 2000.0}, "job resolve has not run for 33 min"),
        ("audits", {"mismatches": 2}, "found 2 numbers unlike the chain's"),
        ("audits", {"age_seconds": 200_000.0}, "chain 8453 was last audited 2 days ago"),
        ("database", {"connections": 99}, "99 of 100 database connections"),
    ],
)
def test_each_trouble_is_one_sentence(section: str, changes: dict[str, Any], words: str) -> None:
    bad = copy.deepcopy(WELL)
    for row in bad[section]:
        row.update(changes)
    assert any(words in one for one in concerns(StatusFacts(bad))), concerns(StatusFacts(bad))


def test_a_lane_whose_key_was_taken_away_needs_no_look_once_it_is_empty() -> None:
    gone = {**LANE, "status": "stopped", "held": False, "in_flight": 0}
    assert concerns(StatusFacts({**WELL, "lanes": [LANE, gone]})) == []
    for changes in ({"in_flight": 1}, {"held": True}, {"status": "out_of_gas"}):
        assert concerns(StatusFacts({**WELL, "lanes": [LANE, {**gone, **changes}]})), changes


def test_switches_and_asked_jobs_and_silent_ports_are_told() -> None:
    bad = {
        **WELL,
        "switches": [{"name": "trading_paused", "reason": "drill", "changed_by": "ops", "age_seconds": 60.0}],
        "asked": [{"job": "resolve", "waiting_seconds": 300.0, "started": False}],
    }
    failing = {"up": True, "ready": True, "failing": [{"name": "chain-base", "detail": "late"}], "samples": []}
    found = concerns(StatusFacts(bad, {"indexer": {"up": False, "why": "refused"}, "api": failing}))
    assert any("trading_paused is on since 60 s, by ops: drill" in one for one in found)
    assert any("a run of resolve asked for 5 min ago" in one for one in found)
    assert any("indexer does not answer on its metrics port: refused" in one for one in found)
    assert any("api: chain-base does not hold: late" in one for one in found)


def test_spans_are_said_as_people_say_them() -> None:
    assert [ago(each) for each in (None, 5, 600, 8000, 400_000)] == ["never", "5 s", "10 min", "2 h", "4 days"]


def test_samples_are_picked_by_name() -> None:
    text = '# TYPE a gauge\na 1\n# TYPE b gauge\nb{x="y"} 2\n'
    assert list(samples(text, ["b"])) == [{"name": "b", "labels": {"x": "y"}, "value": 2.0}]
