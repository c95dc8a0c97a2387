"""Prints `./vpm --help` and `./vpm COMMAND --help` from manual.txt. This module uses only the standard library, because
help must work before any set-up. The commands' own parsers have no help texts."""

from __future__ import annotations

import re
import sys
from pathlib import Path

OVERVIEW, *_SECTIONS = re.split(r"^--- (\w+): (.+)\n", Path(__file__).with_name("manual.txt").read_text(), flags=re.M)
COMMANDS = dict(zip(_SECTIONS[::3], zip(_SECTIONS[1::3], _SECTIONS[2::3], strict=True), strict=True))
"""Each command's summary and manual page."""


def show_help(argv: list[str]) -> int | None:
    """Print help if the command line asks for it or names no known command, and return the exit code. Return None if
    the command should run."""
    asked, *options = argv or ["--help"]
    if asked in ("-h", "--help", "help"):
        asked, *options = *options[:1], "--help"
    if asked == "--help":
        width = max(map(len, COMMANDS))
        print(OVERVIEW + "\n".join(f"    {name:<{width}}  {short}" for name, (short, _) in COMMANDS.items()))
        return 0
    if asked not in COMMANDS:
        print(f"vpm: there is no command '{asked}'. --help lists them.", file=sys.stderr)
        return 2
    if "--help" in options or "-h" in options:
        print(COMMANDS[asked][1].rstrip())
        return 0
    return None
