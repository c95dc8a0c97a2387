"""The ABIs of our contracts, generated from the build by `python -m scripts._deploy.build`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import orjson

from core.chain.contract import Abi, CustomError

_FOLDER = Path(__file__).parent


@cache
def abi(name: str) -> Abi:
    return Abi(orjson.loads((_FOLDER / f"{name}.json").read_bytes()))


@cache
def all_errors() -> Mapping[bytes, CustomError]:
    """Return the custom errors of all our contracts by selector, since a revert often comes from a nested call."""
    errors: dict[bytes, CustomError] = {}
    for path in sorted(_FOLDER.glob("*.json")):
        errors |= abi(path.stem).errors
    return errors
