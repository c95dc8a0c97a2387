"""All tests share one PostgreSQL, each in a database of its own: what one looks for or ends among the server's sessions
and locks must be its own, or it is another test that breaks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from core.paths import REPOSITORY

ALL_SESSIONS = re.compile(r"\b(?:FROM|JOIN) (?:pg_stat_activity|pg_locks)\b")
ITS_OWN = ("current_database()", "pid = %s", "unnest(%s::int[])")


def statements_of(text: str) -> Iterator[str]:
    """Every text of a module, those of several parts as one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            yield node.value if isinstance(node.value, str) else node.value.decode(errors="replace")


def of_any_database(text: str) -> list[str]:
    return [
        each for each in statements_of(text) if ALL_SESSIONS.search(each) and not any(own in each for own in ITS_OWN)
    ]


def test_no_test_looks_for_sessions_of_others() -> None:
    files = [each for each in (REPOSITORY / "tests").rglob("*.py") if each.name != "test_shared_server.py"]
    assert sum(ALL_SESSIONS.search(each.read_text()) is not None for each in files) > 5
    others = {str(each.relative_to(REPOSITORY)): of_any_database(each.read_text()) for each in files}
    assert {name: statements for name, statements in others.items() if statements} == {}


def test_one_that_does_is_seen() -> None:
    kills = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'a'"
    assert of_any_database(f'do("{kills[:40]}"\n   "{kills[40:]}")') == [kills]
    assert of_any_database(f'do("{kills} AND datname = current_database()")') == []
