"""`vpm status` on a real database: filled, of an older schema, and away."""

from __future__ import annotations

import json

import psycopg
import pytest

from core.db.engine import conninfo
from scripts._status.__main__ import main
from tests.conftest import TestPostgres


def status(url: str, *options: str) -> int:
    with pytest.MonkeyPatch.context() as settings:
        settings.setenv("DATABASE_URL", url)
        return main(list(options))


def test_an_empty_system_is_shown_as_such(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(database_url) == 1
    said = capsys.readouterr().out
    for daemon in ("indexer", "relayer", "keeper", "api"):
        assert f"no {daemon} has reported" in said


def test_every_section_is_read_and_json_has_it(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
        connection.execute(
            "INSERT INTO daemon_heartbeat (daemon, instance, pid, is_leader, started_at, seen_at, detail)"
            " SELECT d, 'host:1', 1, true, now(), now(), '{\"base\": \"leading\"}' FROM"
            " unnest(ARRAY['indexer', 'keeper', 'relayer', 'api']) d"
        )
        connection.execute(
            "INSERT INTO chain_cursor (chain_id, name, start_block, number, hash, block_time, l1_block_number,"
            " head_number, head_seen_at, state, sources) VALUES (8453, 'base', 1, 10, %s, 1700000000, 10, 500, now(),"
            " 'tail', '{}')",
            (bytes(32),),
        )
        connection.execute(
            "INSERT INTO operator_switch (name, is_on, changed_by) VALUES ('trading_paused', true, 'test')"
        )
    assert status(database_url, "--json") == 1
    body = json.loads(capsys.readouterr().out)
    assert body["ok"] is False
    assert any("490 blocks behind" in one for one in body["concerns"])
    assert any("trading_paused" in one for one in body["concerns"])
    assert {row["daemon"] for row in body["daemons"]} == {"indexer", "keeper", "relayer", "api"}
    assert status(database_url) == 1
    assert "'base': 'leading'" in capsys.readouterr().out


def test_a_database_that_is_away_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("postgresql://vpm:secret@127.0.0.1:9/vpm") == 2
    said = capsys.readouterr().err
    assert "The database does not respond" in said
    assert "secret" not in said
    assert "Traceback" not in said


def test_a_database_without_our_tables_says_what_to_run(
    postgres: TestPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    url = postgres.create(migrated=False)
    try:
        assert status(url) == 2
        assert "vpm migrate" in capsys.readouterr().err
    finally:
        postgres.drop(url)


def test_a_missing_database_url_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert main([]) == 2
    assert "DATABASE_URL is not set" in capsys.readouterr().err
