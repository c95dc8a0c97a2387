"""Conversion between the camelCase names of contracts and our snake_case: `feeBps` is `fee_bps`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def snake_case(name: str) -> str:
    """Convert a name to snake_case. Drop a trailing underscore, which some names have to avoid a Solidity keyword."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).rstrip("_").lower()


def camel_fields(source: Any, *names: str) -> dict[str, Any]:
    """Return the attributes of an object that correspond to these camelCase names, keyed by the names."""
    return {name: getattr(source, snake_case(name)) for name in names}


def from_answer(kind: type[T], answer: Mapping[str, Any]) -> T:
    """Build a dataclass from a view's result, ignoring values that match no field."""
    named = {snake_case(name): value for name, value in answer.items()}
    return kind(**{each.name: named[each.name] for each in fields(kind) if each.name in named})  # type: ignore[arg-type]
