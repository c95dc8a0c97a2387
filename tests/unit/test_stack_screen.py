"""The lines of the steps of a start, of which several may be under way."""

from __future__ import annotations

import re
import sys

import pytest

from scripts._stack.screen import step


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return re.sub(r"\d+\.\d s", "N s", capsys.readouterr().out)


def test_on_a_terminal_a_step_alone_is_ticked_on_its_own_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with step("one"):
        pass
    assert shown(capsys) == "  · one ...\r  ✓ one (N s)    \n"


def test_on_a_terminal_a_step_beside_another_never_writes_over_its_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    first, second = step("first"), step("second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert shown(capsys) == "  · first ...\n  · second ...\n  ✓ first (N s)\n  ✓ second (N s)\n"


def test_a_step_that_fails_ends_its_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(RuntimeError), step("one"):
        raise RuntimeError
    assert shown(capsys) == "  · one ...\n"


def test_in_a_file_each_has_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with step("outer"), step("inner"):
        pass
    assert shown(capsys) == "  · outer ...\n  · inner ...\n  ✓ inner (N s)\n  ✓ outer (N s)\n"
