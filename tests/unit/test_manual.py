"""The manual lists every option of each command, and where a command looks by default."""

from __future__ import annotations

import re

import pytest

from core.paths import REPOSITORY
from scripts._vpm import manual
from scripts._vpm.cli import SERVICE_SETTINGS

PROGRAMS = {
    "audit": ("indexer/cli.py",),
    "bench": ("scripts/_vpm/cli.py",),
    "config": ("core/config/__main__.py",),
    "feed": ("scripts/_feed/__main__.py", "scripts/_feed/record.py", "scripts/_verify/chain.py"),
    "keeper": ("keeper/__main__.py",),
    "prove": ("scripts/_prove/__main__.py",),
    "reindex": ("scripts/_status/reindex.py",),
    "status": ("scripts/_status/__main__.py",),
    "switch": ("scripts/_status/switch.py",),
    "test": ("scripts/_vpm/checks.py",),
    "up": ("scripts/_stack/state.py",),
    "verify": ("scripts/_verify/__main__.py", "scripts/_verify/chain.py"),
}
OPTION = re.compile(r'add_argument\(\s*"(--[a-z-]+)"(?![^\n]*SUPPRESS)')


@pytest.mark.parametrize("command", PROGRAMS)
def test_every_option_is_documented(command: str) -> None:
    taken = {name for path in PROGRAMS[command] for name in OPTION.findall((REPOSITORY / path).read_text())}
    assert taken
    page = manual.COMMANDS[command][1]
    assert not {name for name in taken if name not in page}


@pytest.mark.parametrize("command", ["audit", "feed", "keeper", "rebuild", "reindex", "status", "switch", "verify"])
def test_a_command_that_falls_back_on_the_local_stack_says_what_goes_before_it(command: str) -> None:
    (said,) = re.findall(r"^Commands for a running service \((.+?)\) use the local\n", manual.OVERVIEW, re.MULTILINE)
    assert command in said
    assert all(name in manual.OVERVIEW for name in SERVICE_SETTINGS)
