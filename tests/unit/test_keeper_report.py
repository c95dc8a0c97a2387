"""The report as JSON, which the cron endpoint returns, and as text for a terminal."""

from __future__ import annotations

from datetime import UTC, datetime

from keeper.__main__ import as_text
from keeper.jobs import BY_NAME, JOBS
from keeper.run import SKIPPED_SHOWN, Action, RunReport

AT = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)


def report() -> RunReport:
    made = RunReport("resolve", AT, AT)
    made.actions.append(Action("resolve", "NVDA #7", "queued", "the rounds say UP", intent_id=3))
    made.skip("TSLA #8", "its readings are stale")
    return made


def test_the_body_has_exactly_the_documented_keys() -> None:
    made = report()
    made.update(0, "mined", "0x" + "ab" * 32)
    assert made.body() == {
        "job": "resolve",
        "ok": True,
        "startedAt": "2026-11-21T12:00:00.123Z",
        "finishedAt": "2026-11-21T12:00:00.123Z",
        "actions": [
            {
                "kind": "resolve",
                "target": "NVDA #7",
                "status": "mined",
                "txHash": "0x" + "ab" * 32,
                "detail": "the rounds say UP",
            }
        ],
        "skipped": [{"target": "TSLA #8", "reason": "its readings are stale"}],
        "errors": [],
    }


def test_an_error_is_not_ok() -> None:
    made = report()
    made.errors.append("The node: no answer.")
    assert made.body()["ok"] is False
    assert "error        The node: no answer." in as_text(made, dry_run=False)


def test_a_long_list_is_cut_and_says_so() -> None:
    made = report()
    made.skip_all([f"position {n}" for n in range(1000)], "it waits")
    body = made.body()
    assert len(body["skipped"]) == SKIPPED_SHOWN + 1
    assert body["skipped"][-1]["reason"].startswith("801 more")


def test_a_dry_run_says_would_submit() -> None:
    text = as_text(report(), dry_run=True)
    assert "would submit resolve NVDA #7: the rounds say UP" in text
    assert "queued" not in text


def test_jobs_have_names_the_request_table_takes() -> None:
    import re

    assert len(BY_NAME) == len(JOBS)
    assert all(re.fullmatch(r"[a-z][a-z-]{0,31}", job.name) for job in JOBS)
    assert {"open", "resolve", "deliver"} <= set(BY_NAME), "the documented cron jobs"
