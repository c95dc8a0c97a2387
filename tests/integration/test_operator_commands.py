"""`vpm switch` and `vpm reindex` on a real database."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from core.cup import Refusal, ledger
from core.db.engine import connect, conninfo
from core.db.leader import lock_key
from core.paths import REPOSITORY
from scripts._status import reindex, switch
from tests.support.genesis import Genesis


@pytest.fixture(autouse=True)
def _settings(fresh_database_url: str, local_genesis: Genesis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", fresh_database_url)
    monkeypatch.setenv("VPM_DEPLOYMENTS_DIR", str(local_genesis.deployments))


def test_a_switch_is_turned_listed_and_signed(fresh_database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert switch.main([]) == 0
    assert "trading_paused   off" in capsys.readouterr().out
    assert switch.main(["trading_paused", "on", "--reason", "a look", "--by", "ops"]) == 0
    assert "trading_paused   on " in capsys.readouterr().out
    with psycopg.connect(conninfo(fresh_database_url)) as connection:
        rows = connection.execute("SELECT name, is_on, reason, changed_by FROM operator_switch").fetchall()
    assert rows == [("trading_paused", True, "a look", "ops")]
    assert switch.main(["trading_paused", "off"]) == 0
    assert "trading_paused   off" in capsys.readouterr().out


def test_a_user_without_a_login_name_must_pass_by(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A container that runs as a number has no login name."""

    def no_name() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr("getpass.getuser", no_name)
    with pytest.raises(SystemExit):
        switch.main(["trading_paused", "on"])
    assert "--by" in capsys.readouterr().err
    assert switch.main(["trading_paused", "on", "--by", "ops"]) == 0


def test_a_database_that_is_away_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://vpm:secret@127.0.0.1:9/vpm")
    assert switch.main([]) == 2
    assert reindex.main(["base", "--yes"]) == 2
    said = capsys.readouterr().err
    assert said.count("Nothing accepts connections at") == 2
    assert "secret" not in said


CURSOR = (
    "INSERT INTO chain_cursor (chain_id, name, start_block, number, hash, block_time, l1_block_number, state, sources)"
    " VALUES (%s, %s, 1, 10, %s, 1700000000, 10, 'tail', '{}')"
)


def test_reindex_forgets_one_chain_and_only_what_can_be_read_again(
    fresh_database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(conninfo(fresh_database_url), autocommit=True) as connection:
        for chain_id, name in ((8453, "base"), (4663, "stock")):
            connection.execute(CURSOR, (chain_id, name, bytes(32)))
            connection.execute(
                "INSERT INTO chain_block (chain_id, number, hash, timestamp, l1_block_number)"
                " VALUES (%s, 10, %s, 1700000000, 10)",
                (chain_id, bytes(32)),
            )
        connection.execute("INSERT INTO operator_switch (name, is_on, changed_by) VALUES ('kept', true, 'test')")

        assert reindex.main(["stock"]) == 1
        assert "Add --yes" in capsys.readouterr().out
        assert _cursors(connection) == {8453, 4663}

        with psycopg.connect(conninfo(fresh_database_url), autocommit=True) as indexer:
            indexer.execute("SELECT pg_advisory_lock(%s)", (lock_key("indexer:stock"),))
            assert reindex.main(["stock", "--yes"]) == 2
            assert "stop every indexer first" in capsys.readouterr().err
            assert _cursors(connection) == {8453, 4663}
            # The server frees what a closed connection held a moment later.
            indexer.execute("SELECT pg_advisory_unlock(%s)", (lock_key("indexer:stock"),))

        assert reindex.main(["stock", "--yes"]) == 0
        assert "deleted 2 rows" in capsys.readouterr().out
        assert _cursors(connection) == {8453}
        assert connection.execute("SELECT chain_id FROM chain_block").fetchall() == [(8453,)]
        assert connection.execute("SELECT count(*) FROM operator_switch").fetchone() == (1,)


def _cursors(connection: psycopg.Connection[tuple[object, ...]]) -> set[object]:
    return {row[0] for row in connection.execute("SELECT chain_id FROM chain_cursor").fetchall()}


def test_a_missing_deployment_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VPM_DEPLOYMENTS_DIR", str(tmp_path))
    assert reindex.main(["base", "--yes"]) == 2
    assert "does not exist" in capsys.readouterr().err


async def test_a_wallet_registered_as_the_manual_says_cannot_enroll(fresh_database_url: str) -> None:
    page = (REPOSITORY / "docs" / "operate.md").read_text()
    (statement,) = re.findall(r'psql "\$DATABASE_URL" -c "(INSERT INTO cup_house_wallet [^"]+)"', page)
    async with await connect(fresh_database_url) as connection:
        wallet = "0x" + "AB" * 20
        await connection.execute(statement.replace("0xWALLET", wallet).encode())
        with pytest.raises(Refusal, match="operator's own fleets"):
            await ledger.enrol(connection, wallet.lower(), "", "2026-11-21T12:00:00Z", b"\x01" * 65)
