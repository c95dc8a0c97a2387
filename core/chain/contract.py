"""Contracts by ABI: encoding of calls, decoding of results and errors, revert reasons as sentences.

This module uses the codec of web3 and eth-abi. It does not use web3's contract objects, which repeat lookups and checks
at every call (docs/decisions/0012-web3-is-the-chain-client.md has the figures). Addresses decode to lower-case text,
bytes to bytes, structs to dictionaries by component name.
"""

from __future__ import annotations

import re
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

from core.chain.errors import ContractReverted, RpcError, RpcErrorKind
from core.hexadecimal import bytes_of, hex_of

# The codec's errors for bytes that do not match the expected types.
UNDECODABLE = (DecodingError, OverflowError, UnicodeDecodeError)
# This codec requires bytes of exactly their type's size.
CODEC = AsyncWeb3(AsyncBaseProvider()).codec


class _AbiEntry:
    """A function or custom error of an ABI. Its data is a four-byte selector followed by arguments."""

    def __init__(self, entry: ABIElement) -> None:
        self.name: str = entry["name"]  # type: ignore[typeddict-item]
        self.signature = abi_to_signature(entry)
        self.selector = function_signature_to_4byte_selector(self.signature)
        self._entry = entry
        self._types = get_abi_input_types(entry)
        self._inputs = _named(entry.get("inputs", []))  # type: ignore[arg-type]

    def encode(self, *arguments: Any) -> bytes:
        """Encode the arguments as call data. Structs may be tuples or dictionaries by component name."""
        if len(arguments) != len(self._types):
            raise TypeError(f"{self.signature} takes {len(self._types)} arguments, not {len(arguments)}")
        return self.selector + CODEC.encode(*get_aligned_abi_inputs(self._entry, arguments))

    def decode_inputs(self, data: bytes) -> dict[str, Any]:
        """Decode data that begins with the selector. Return the arguments by name."""
        return _by_name(self._inputs, CODEC.decode(self._types, data[4:]))


CustomError = _AbiEntry


class Function(_AbiEntry):
    def __init__(self, entry: ABIFunction) -> None:
        super().__init__(entry)
        self._output_types = get_abi_output_types(entry)
        self._outputs = _named(entry.get("outputs", []))

    def decode(self, data: bytes) -> Any:
        """Decode the return value. Several return values become a tuple."""
        if not data and self._outputs:
            raise RpcError(
                RpcErrorKind.BAD_ANSWER, f"{self.name} returned nothing: is there a contract at this address?"
            )
        try:
            values = tuple(_by_name(self._outputs, CODEC.decode(self._output_types, data)).values())
        except UNDECODABLE as error:
            raise RpcError(RpcErrorKind.BAD_ANSWER, f"{self.name} returned undecodable data: {error}.") from None
        return values[0] if len(values) == 1 else values


class Abi:
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
        """Find a function by name, or by signature such as `resolve(bytes32,uint80)` if the name is overloaded."""
        named = self._functions[name]
        if len(named) > 1:
            raise KeyError(f"{name} is overloaded; use one of {', '.join(each.signature for each in named)}")
        return named[0]


@dataclass(frozen=True, slots=True)
class Call:
    """A contract call, ready to be run as a read, simulated or sent. `function` decodes the result."""

    to: str
    data: bytes
    function: Function
    errors: Mapping[bytes, CustomError] = field(repr=False, default_factory=dict)
    sender: str | None = None

    def parameters(self) -> dict[str, str]:
        """Return the transaction object for eth_call and eth_estimateGas."""
        parameters = {"to": self.to, "data": hex_of(self.data)}
        if self.sender:
            parameters["from"] = self.sender
        return parameters


class Contract:
    """A contract's address and ABI. `other_abis` are the ABIs of the contracts that it calls, since a revert may also
    carry one of their custom errors."""

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
    """Return the EIP-55 form of an address (text or 20 bytes). Results are cached, since each one costs a hash."""
    return to_checksum_address(address)


def _by_name(parts: Sequence[ABIComponent], values: Sequence[Any]) -> dict[str, Any]:
    """Return the decoded values by component name, with structs as dictionaries."""
    return {part["name"]: _structured(part, value, part["type"]) for part, value in zip(parts, values, strict=True)}


def _structured(part: ABIComponent, value: Any, kind: str) -> Any:
    if kind.endswith("]"):
        return [_structured(part, each, kind[: kind.rindex("[")]) for each in value]
    return _by_name(_named(part["components"]), value) if kind == "tuple" else value


def _named(parts: Sequence[ABIComponent]) -> list[ABIComponent]:
    """Name each unnamed component by its position."""
    return [{**part, "name": part.get("name") or str(position)} for position, part in enumerate(parts)]


# Declared by the compiler.
_REASON = CustomError({"type": "error", "name": "Error", "inputs": [{"name": "message", "type": "string"}]})
_PANIC = CustomError({"type": "error", "name": "Panic", "inputs": [{"name": "code", "type": "uint256"}]})
# By panic code, as documented by Solidity.
_PANICS = {
    0x00: "the compiler's own check failed",
    0x01: "an assertion failed",
    0x11: "an arithmetic operation overflowed or underflowed",
    0x12: "division by zero",
    0x21: "a value is outside its enum",
    0x22: "a stored byte array is badly encoded",
    0x31: "pop from an empty array",
    0x32: "an index is out of bounds",
    0x41: "too much memory was allocated",
    0x51: "an unset internal function was called",
}


def explain(error: RpcError, errors: Mapping[bytes, CustomError] | None = None) -> ContractReverted:
    """Convert a node's error to a ContractReverted with the decoded reason. `errors` maps selectors to the custom
    errors that the contract may raise."""
    data = bytes_of(error.data) if error.data and len(error.data) % 2 == 0 else b""
    name, arguments, sentence = decode_revert(data, errors or {})
    if not data:
        # Some nodes put the text only into the message: "...: execution reverted: NotOwner."
        reason = re.search(r"revert(?:ed)?(?: with reason string)?:? '?(.+?)'?\.?$", error.message)
        if reason and reason.group(1).strip("."):
            sentence = f"The call reverted: {reason.group(1)}."
    return ContractReverted(sentence, name=name, arguments=arguments, data=error.data)


def decode_revert(data: bytes, errors: Mapping[bytes, CustomError]) -> tuple[str | None, dict[str, Any], str]:
    """Return the error's name (or None), its arguments, and a sentence that describes it."""
    if not data:
        return None, {}, "The call reverted without a reason."
    selector = data[:4]
    error = {_REASON.selector: _REASON, _PANIC.selector: _PANIC}.get(selector) or errors.get(selector)
    try:
        arguments = {} if error is None else error.decode_inputs(data)
    except UNDECODABLE:
        error = None  # a known selector with undecodable arguments: show the selector
    if error is _REASON:
        return "Error", arguments, f"The call reverted: {arguments['message']}."
    if error is _PANIC:
        code = arguments["code"]
        return "Panic", arguments, f"The call reverted: {_PANICS.get(code, f'panic code {code:#04x}')}."
    if error is not None:
        return error.name, arguments, f"The call reverted: {_words(error.name)}{_listed(arguments)}."
    return None, {}, f"The call reverted with an unknown error (selector {hex_of(selector)})."


def _words(name: str) -> str:
    """Turn `EntryTooSmall` into `entry too small`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name).lower()


def _listed(arguments: Mapping[str, Any]) -> str:
    parts = (f"{key} {hex_of(value) if isinstance(value, bytes) else value}" for key, value in arguments.items())
    return f" ({', '.join(parts)})" if arguments else ""
