"""Checks a body against the struct that describes it."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from api.operations import Body

B = TypeVar("B", bound=Body)


def hold(model: type[B], answer: Any) -> B:
    held = msgspec.convert(answer, model)
    assert msgspec.to_builtins(held) == answer
    return held
