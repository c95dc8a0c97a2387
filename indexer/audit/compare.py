"""Collects what was compared and what differed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.chain.errors import RpcError, RpcErrorKind
from core.contracts.names import camel_fields
from core.hexadecimal import hex_of

ADDRESS_BYTES = 20
MAX_DETAILS = 100
"""Mismatches described in full; the rest are only counted."""


@dataclass(slots=True)
class Comparison:
    """What was compared, and what did not agree; `compared` counts numbers, not rows. `block`: where it looks now."""

    compared: int = 0
    mismatches: int = 0
    detail: list[dict[str, str]] = field(default_factory=list)
    block: int = 0

    def fields(self, what: str, key: object, ours: Mapping[str, Any], chain: Mapping[str, Any] | RpcError) -> None:
        """Compare every field of `ours` with the chain's of the same name. A view that reverted is one mismatch; a node
        that did not answer is no answer."""
        if isinstance(chain, RpcError):
            if chain.kind is not RpcErrorKind.REVERTED:
                raise chain
            self.compared += 1
            self._differs(what, key, "view", "a row", chain.message)
            return
        for name, value in ours.items():
            self.compared += 1
            if chain[name] != value:
                self._differs(what, key, name, value, chain[name])

    def value(self, what: str, key: object, name: str, ours: Any, chain: Any) -> None:
        self.fields(what, key, {name: ours}, chain if isinstance(chain, RpcError) else {name: chain})

    def keys(self, what: str, ours: Iterable[Any], chain: Iterable[Any]) -> None:
        """Compare the rows there are with those there should be, by key: one too few or too many is a difference."""
        ours_there, chain_there = set(ours), set(chain)
        self.compared += len(ours_there | chain_there)
        for key in sorted(ours_there ^ chain_there, key=_text):
            present = key in ours_there
            self._differs(what, key, "row", "there" if present else "missing", "there" if not present else "missing")

    def _differs(self, what: str, key: object, name: str, ours: Any, chain: Any) -> None:
        self.mismatches += 1
        if len(self.detail) < MAX_DETAILS:
            mismatch = {"what": what, "key": key, "field": name, "ours": ours, "chain": chain, "block": self.block}
            self.detail.append({word: _text(value) for word, value in mismatch.items()})


def as_view_fields(row: Any, *names: str) -> dict[str, Any]:
    """Return columns under the names that contracts' views use, converted to the types those decode to."""
    return {name: as_view_value(value) for name, value in camel_fields(row, *names).items()}


def as_view_value(value: Any) -> Any:
    """Return a column's value as a view's answer has it."""
    if isinstance(value, bytes) and len(value) == ADDRESS_BYTES:
        return hex_of(value)
    return [int(each) for each in value] if isinstance(value, list) else value


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "/".join(_text(each) for each in value)
    return hex_of(value) if isinstance(value, bytes) else str(value)
