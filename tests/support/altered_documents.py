"""Documents with one altered value, for tests of the code that should notice."""

from __future__ import annotations

import copy
from typing import Any


def changed(document: Any, path: str, value: Any = None) -> Any:
    """Return a copy with the leaf at `path` (dots and positions) set to `value`, or to something near its value."""
    made = copy.deepcopy(document)
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    holder = made
    for part in way:
        holder = holder[part]
    was = holder[last]
    holder[last] = another(was) if value is None else value
    assert holder[last] != was
    return made


def another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str) and value.isdigit():
        return str(int(value) + 1)
    if isinstance(value, str) and value.startswith("0x"):
        return value[:-1] + ("1" if value[-1] != "1" else "2")
    return f"{value}x"
