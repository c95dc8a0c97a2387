"""What a test asks a database while it waits: over one connection for each database, however often."""

from __future__ import annotations

from typing import Any

from scripts._local.asking import Asking

_asking: dict[str, Asking] = {}


def rows(url: str, query: str, *values: object) -> list[tuple[Any, ...]]:
    return _asking.setdefault(url, Asking(url)).rows(query, *values)


def let_go(url: str) -> None:
    """Before the database is dropped."""
    if (asking := _asking.pop(url, None)) is not None:
        asking.close()
