"""The ABIs of every contract the daemons speak to, generated from the build by `python -m scripts._vpm.abi`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import orjson

from core.chain.contract import Abi, CustomError

_FOLDER = Path(__file__).parent


@cache
def abi(name: str) -> Abi:
    """Return a contract's ABI by its name, parsed once."""
    return Abi(orjson.loads((_FOLDER / f"{name}.json").read_bytes()))


@cache
def all_errors() -> Mapping[bytes, CustomError]:
    """Return every custom error of ours by selector: a revert often comes from a contract further down the call."""
    errors: dict[bytes, CustomError] = {}
    for path in sorted(_FOLDER.glob("*.json")):
        errors |= abi(path.stem).errors
    return errors
