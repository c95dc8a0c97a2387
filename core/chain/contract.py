"""Contracts by their ABI: what a call is encoded to, and what its answer, or a refusal, says.

Types, signatures, coding and names are those of web3 and eth-abi, without web3's contract objects, which look up and
check at every call what never changes: docs/decisions/0012-web3-is-the-chain-client.md has the figures. Addresses
decode to lower-case text, bytes to bytes, structs to dictionaries by component name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from eth_abi.exceptions import DecodingError
from eth_typing import ABIComponent, ABIElement, ABIEvent, ABIFunction, ChecksumAddress
from eth_utils.abi import (
    abi_to_signature,
    function_signature_to_4byte_selector,
    get_abi_input_types,
    get_abi_output_types,
    get_aligned_abi_inputs,
)
from eth_utils.address import to_checksum_address
from web3 import AsyncWeb3
from web3.providers import AsyncBaseProvider

from core.chain.errors import RpcError, RpcErrorKind
from core.hexadecimal import hex_of

UNDECODABLE = (DecodingError, OverflowError, UnicodeDecodeError)
"""What the codec raises for bytes that are not of the types asked for."""

CODEC = AsyncWeb3(AsyncBaseProvider()).codec
"""The codec of an `AsyncWeb3`, which needs no connection. Bytes must be of exactly their type's size."""


class _Selected:
    """A function or custom error: arguments behind the four bytes of its signature."""

    def __init__(self, entry: ABIElement) -> None:
        self.name: str = entry["name"]  # type: ignore[typeddict-item]
        self.signature = abi_to_signature(entry)
        self.selector = function_signature_to_4byte_selector(self.signature)
        self._entry = entry
        self._types = get_abi_input_types(entry)
        self._inputs = _named(entry.get("inputs", []))  # type: ignore[arg-type]

    def encode(self, *arguments: Any) -> bytes:
        """Call data. Structs may be given as tuples or as dictionaries by component name."""
        if len(arguments) != len(self._types):
            raise TypeError(f"{self.signature} takes {len(self._types)} arguments, {len(arguments)} given")
        return self.selector + CODEC.encode(*get_aligned_abi_inputs(self._entry, arguments))

    def decode_inputs(self, data: bytes) -> dict[str, Any]:
        """Return the arguments by name, from data that begins with the selector."""
        return _by_name(self._inputs, CODEC.decode(self._types, data[4:]))


class Function(_Selected):
    """A function of a contract."""

    def __init__(self, entry: ABIFunction) -> None:
        super().__init__(entry)
        self._output_types = get_abi_output_types(entry)
        self._outputs = _named(entry.get("outputs", []))

    def decode(self, data: bytes) -> Any:
        """Decode the return value; a tuple of them when the function returns several."""
        if not data and self._outputs:
            raise RpcError(
                RpcErrorKind.BAD_ANSWER, f"{self.name} returned nothing: is there a contract at this address?"
            )
        try:
            values = tuple(_by_name(self._outputs, CODEC.decode(self._output_types, data)).values())
        except UNDECODABLE as error:
            raise RpcError(RpcErrorKind.BAD_ANSWER, f"{self.name} returned undecodable data: {error}.") from None
        return values[0] if len(values) == 1 else values


class CustomError(_Selected):
    """An error that a contract declares."""


class Abi:
    """The entries of one contract, looked up by name, or by signature where a name is overloaded."""

    def __init__(self, entries: Sequence[ABIElement]) -> None:
        self.events: dict[str, ABIEvent] = {}
        self.errors: dict[bytes, CustomError] = {}
        self._functions: dict[str, list[Function]] = {}
        for entry in entries:
            match entry["type"]:
                case "function":
                    function = Function(entry)
                    for name in (function.name, function.signature):
                        self._functions.setdefault(name, []).append(function)
                case "event":
                    self.events[entry["name"]] = entry
                case "error":
                    error = CustomError(entry)
                    self.errors[error.selector] = error

    def function(self, name: str) -> Function:
        """Find a function by name, or by signature such as `resolve(bytes32,uint80)` where the name is overloaded."""
        named = self._functions[name]
        if len(named) > 1:
            raise KeyError(f"{name} is overloaded; use one of {', '.join(each.signature for each in named)}")
        return named[0]


@dataclass(frozen=True, slots=True)
class Call:
    """One contract call, ready to be read, simulated or sent; `function` decodes what it returns."""

    to: str
    data: bytes
    function: Function
    errors: Mapping[bytes, CustomError] = field(repr=False, default_factory=dict)
    sender: str | None = None

    def parameters(self) -> dict[str, str]:
        """Return the first parameter of eth_call and eth_estimateGas."""
        given = {"to": self.to, "data": hex_of(self.data)}
        if self.sender:
            given["from"] = self.sender
        return given


class Contract:
    """An address and its ABI. `other_abis` are those whose custom errors may bubble up through this contract."""

    def __init__(self, address: str, abi: Abi | Sequence[ABIElement], *other_abis: Abi) -> None:
        self.address = checksum(address)
        self.abi = abi if isinstance(abi, Abi) else Abi(abi)
        self.errors: dict[bytes, CustomError] = {}
        for each in (*other_abis, self.abi):
            self.errors.update(each.errors)

    def call(self, name: str, *arguments: Any, sender: str | None = None) -> Call:
        function = self.abi.function(name)
        return Call(self.address, function.encode(*arguments), function, self.errors, sender)


@lru_cache(maxsize=16_384)
def checksum(address: str | bytes) -> ChecksumAddress:
    """Return the EIP-55 form of an address given as text or 20 bytes. Kept, since each costs a hash, and a page shows
    the same contracts and wallets again and again."""
    return to_checksum_address(address)


def _by_name(parts: Sequence[ABIComponent], values: Sequence[Any]) -> dict[str, Any]:
    """Return decoded values by the names of their components, structs as dictionaries likewise."""
    return {part["name"]: _structured(part, value, part["type"]) for part, value in zip(parts, values, strict=True)}


def _structured(part: ABIComponent, value: Any, kind: str) -> Any:
    if kind.endswith("]"):
        return [_structured(part, each, kind[: kind.rindex("[")]) for each in value]
    return _by_name(_named(part["components"]), value) if kind == "tuple" else value


def _named(parts: Sequence[ABIComponent]) -> list[ABIComponent]:
    """Parameters, those without a name called by their position."""
    return [{**part, "name": part.get("name") or str(position)} for position, part in enumerate(parts)]
