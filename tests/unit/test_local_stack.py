"""Commands without settings find the local stack of the checkout, if one runs, and say so. A database that cannot be
used is reported in one sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts._feed import __main__ as feed
from scripts._stack.state import StackError, State, exclusive
from scripts._stack.up import check_database_url
from scripts._verify import __main__ as verify
from scripts._vpm import cli
from scripts._vpm.cli import local_stack

READY = {
    "base_url": "http://127.0.0.1:8400",
    "database_url": "postgresql://vpm@127.0.0.1:5433/vpm",
    "rpc": {"base": "http://127.0.0.1:1", "stock": "http://127.0.0.1:2"},
    "deployments": "/somewhere/deployments",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    State(tmp_path).ready.write_text(json.dumps(READY))
    return tmp_path


def test_a_running_stack_is_found(folder: Path) -> None:
    with exclusive(folder):
        stack = local_stack({"PATH": "/bin"}, folder)
    assert stack == {
        "DATABASE_URL": READY["database_url"],
        "VPM_BASE_RPC_URLS": "http://127.0.0.1:1",
        "VPM_STOCK_RPC_URLS": "http://127.0.0.1:2",
        "VPM_DEPLOYMENTS_DIR": READY["deployments"],
        "VPM_PUBLIC_URL": READY["base_url"],
    }


def test_what_a_stopped_one_left_behind_is_not(folder: Path) -> None:
    with exclusive(folder):
        pass
    assert local_stack({}, folder) is None
    assert local_stack({}, folder / "never") is None


@pytest.mark.parametrize("name", ["DATABASE_URL", "VPM_BASE_RPC_URLS", "VPM_STOCK_RPC_URLS", "VPM_DEPLOYMENTS_DIR"])
def test_settings_go_before_it(folder: Path, name: str) -> None:
    with exclusive(folder):
        assert local_stack({name: "something"}, folder) is None


def test_one_that_is_starting_is_not_there_yet(tmp_path: Path) -> None:
    with exclusive(tmp_path):
        assert local_stack({}, tmp_path) is None


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["audit"], ["indexer", "audit"]),
        (["rebuild"], ["indexer", "rebuild"]),
        (["switch", "trading_paused", "on"], ["scripts._status.switch", "trading_paused", "on"]),
        (["reindex", "base", "--yes"], ["scripts._status.reindex", "base", "--yes"]),
        (["keeper", "run-once", "resolve"], ["keeper", "run-once", "resolve"]),
        (["verify", "1"], ["scripts._verify", "1"]),
        (["status", "--json"], ["scripts._status", "--json"]),
    ],
)
def test_commands_go_to_it_and_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], program: list[str]
) -> None:
    begun: list[tuple[list[str], str | None]] = []
    stack = {"VPM_PUBLIC_URL": "http://127.0.0.1:8400", "DATABASE_URL": "its own"}
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(cli, "local_stack", lambda _given: stack)
    monkeypatch.setattr(os, "execv", lambda _path, argv: begun.append((argv[2:], os.environ.get("DATABASE_URL"))))
    cli.COMMANDS[words[0]](words[1:])
    assert begun == [(program, "its own")]
    assert "the local stack at http://127.0.0.1:8400" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "1", "--rpc", "http://127.0.0.1:9"],
        ["verify", "1", "--rpc=http://127.0.0.1:9"],
        ["feed", "cost", "0x1", "--rpc=http://127.0.0.1:9"],
    ],
)
def test_what_names_its_own_service_is_left_alone(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    begun: list[list[str]] = []

    def never(_given: object) -> None:
        raise AssertionError("it was asked for another service")

    monkeypatch.setattr(cli, "local_stack", never)
    monkeypatch.setattr(os, "execv", lambda _path, argv: begun.append(argv[3:]))
    cli.COMMANDS[words[0]](words[1:])
    assert begun == [words[1:]]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (verify.main, ["1", "--rp", "http://127.0.0.1:9"]),
        (feed.main, ["cost", "0x1", "--rp", "http://127.0.0.1:9"]),
        (feed.main, ["record", "--rp", "http://127.0.0.1:9"]),
    ],
)
def test_half_a_name_names_no_service(
    program: Callable[[list[str]], int], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The command's parser would take it, but the search for the local stack would not see it."""
    with pytest.raises(SystemExit) as refused:
        program(words)
    assert refused.value.code == 2
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://nobody:wrong@127.0.0.1:1/none", "Connection refused"),
        ("mysql://root@127.0.0.1/vpm", "not a PostgreSQL URL"),
    ],
)
def test_a_wrong_database_url_is_one_sentence(url: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    with pytest.raises(StackError, match=f"^DATABASE_URL cannot be used: .*{reason}") as refused:
        check_database_url()
    assert "\n" not in str(refused.value)
