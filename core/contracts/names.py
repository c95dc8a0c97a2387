"""Names as contracts have them and as we do: `feeBps` is our `fee_bps`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def snake_case(name: str) -> str:
    """Return a contract's name as we write it; an underscore at its end only keeps it apart from a word of Solidity."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).rstrip("_").lower()


def camel_fields(source: Any, *names: str) -> dict[str, Any]:
    """Return what an object has, under the names that a contract has for it."""
    return {name: getattr(source, snake_case(name)) for name in names}


def from_answer(kind: type[T], answer: Mapping[str, Any]) -> T:
    """Return a dataclass of what a view answered; what it has no field for is left out."""
    named = {snake_case(name): value for name, value in answer.items()}
    return kind(**{each.name: named[each.name] for each in fields(kind) if each.name in named})  # type: ignore[arg-type]
