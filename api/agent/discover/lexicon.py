"""The words discovery knows, from `discover_lexicon.toml` beside this file."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path


@cache
def lexicon() -> dict[str, list[str]]:
    """Lists of phrases by name, as written there."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
