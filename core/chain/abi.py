"""ABI coding from the plain JSON entries the compiler writes: functions, events and custom errors by name or selector.

Used for calls, transactions and anything outside the hot log path; that one slices bytes by hand. Addresses decode to
lower-case text, bytes to bytes, structs to dictionaries by component name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eth_abi.abi import decode as eth_abi_decode
from eth_abi.abi import encode as abi_encode
from eth_abi.exceptions import DecodingError, InsufficientDataBytes
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from core.chain.errors import RpcError, RpcErrorKind

AbiEntries = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One input or output. `type` is canonical: a struct is spelled `(uint256,address)`, with its components kept."""

    name: str
    type: str
    indexed: bool = False
    components: tuple[Parameter, ...] = ()

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> Parameter:
        components = tuple(cls.parse(part) for part in entry.get("components", ()))
        kind = str(entry["type"])
        if kind.startswith("tuple"):
            kind = f"({','.join(part.type for part in components)}){kind.removeprefix('tuple')}"
        return cls(str(entry.get("name", "")), kind, bool(entry.get("indexed", False)), components)

    @property
    def is_array(self) -> bool:
        return self.type.endswith("]")

    def shape(self, value: Any) -> Any:
        """Gives structs their component names."""
        if not self.components:
            return list(value) if self.is_array else value
        if self.is_array:
            return [self._struct(item) for item in value]
        return self._struct(value)

    def flatten(self, value: Any) -> Any:
        """The other way round: a dictionary given for a struct becomes a tuple in component order."""
        if not self.components:
            return value
        if self.is_array:
            return [self._tuple(item) for item in value]
        return self._tuple(value)

    def _struct(self, value: Sequence[Any]) -> dict[str, Any]:
        return {part.name: part.shape(item) for part, item in zip(self.components, value, strict=True)}

    def _tuple(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, Mapping):
            value = [value[part.name] for part in self.components]
        return tuple(part.flatten(item) for part, item in zip(self.components, value, strict=True))


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a contract, which encodes calls and decodes results."""

    name: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    signature: str = field(init=False)
    selector: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signature", _signature(self.name, self.inputs))
        object.__setattr__(self, "selector", keccak(text=self.signature)[:4])

    def encode(self, *arguments: Any) -> bytes:
        """Call data. Structs may be given as tuples or as dictionaries by component name."""
        if len(arguments) != len(self.inputs):
            raise TypeError(f"{self.signature} takes {len(self.inputs)} arguments, {len(arguments)} given")
        values = [part.flatten(value) for part, value in zip(self.inputs, arguments, strict=True)]
        return self.selector + abi_encode([part.type for part in self.inputs], values)

    def decode_inputs(self, data: bytes) -> dict[str, Any]:
        """The arguments of a call's data, by name."""
        return _decode_named(self.inputs, data[4:])

    def decode(self, data: bytes) -> Any:
        """The return value; a tuple of them when the function returns several."""
        values = self._decode(data)
        return values[0] if len(values) == 1 else tuple(values)

    def _decode(self, data: bytes) -> list[Any]:
        if not data and self.outputs:
            raise RpcError(
                RpcErrorKind.BAD_ANSWER, f"{self.name} returned nothing: is there a contract at this address?"
            )
        try:
            values = abi_decode([part.type for part in self.outputs], data)
        except (DecodingError, OverflowError) as error:
            raise RpcError(RpcErrorKind.BAD_ANSWER, f"{self.name} returned undecodable data: {error}.") from None
        return [part.shape(value) for part, value in zip(self.outputs, values, strict=True)]


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a contract, which decodes its logs."""

    name: str
    inputs: tuple[Parameter, ...]
    signature: str = field(init=False)
    topic: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signature", _signature(self.name, self.inputs))
        object.__setattr__(self, "topic", keccak(text=self.signature))

    def decode(self, topics: Sequence[bytes], data: bytes) -> dict[str, Any]:
        """The event's fields by name; an indexed dynamic field is its 32-byte hash."""
        values: dict[str, Any] = {}
        indexed = [part for part in self.inputs if part.indexed]
        for part, topic in zip(indexed, topics[1:], strict=True):
            dynamic = part.components or part.is_array or part.type in ("string", "bytes")
            values[part.name] = topic if dynamic else abi_decode([part.type], topic)[0]
        values.update(_decode_named(tuple(part for part in self.inputs if not part.indexed), data))
        return {part.name: values[part.name] for part in self.inputs}


@dataclass(frozen=True, slots=True)
class CustomError:
    """An error of a contract, which decodes revert data."""

    name: str
    inputs: tuple[Parameter, ...]
    signature: str = field(init=False)
    selector: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signature", _signature(self.name, self.inputs))
        object.__setattr__(self, "selector", keccak(text=self.signature)[:4])

    def decode(self, data: bytes) -> dict[str, Any]:
        """The error's arguments by name, from revert data including the selector."""
        return _decode_named(self.inputs, data[4:])


class Abi:
    """The entries of one contract, looked up by name, or by signature where a name is overloaded."""

    def __init__(self, entries: AbiEntries) -> None:
        self.functions: dict[str, Function] = {}
        self.events: dict[bytes, Event] = {}
        self.errors: dict[bytes, CustomError] = {}
        self._by_name: dict[str, list[Function]] = {}
        self._event_names: dict[str, Event] = {}
        for entry in entries:
            inputs = tuple(Parameter.parse(part) for part in entry.get("inputs", ()))
            match entry["type"]:
                case "function":
                    outputs = tuple(Parameter.parse(part) for part in entry.get("outputs", ()))
                    function = Function(str(entry["name"]), inputs, outputs)
                    self.functions[function.signature] = function
                    self._by_name.setdefault(function.name, []).append(function)
                case "event":
                    event = Event(str(entry["name"]), inputs)
                    self.events[event.topic] = event
                    self._event_names[event.name] = event
                case "error":
                    error = CustomError(str(entry["name"]), inputs)
                    self.errors[error.selector] = error

    def function(self, name: str) -> Function:
        """By name, or by signature such as `resolve(bytes32,uint80)` where the name is overloaded."""
        if "(" in name:
            return self.functions[name]
        found = self._by_name[name]
        if len(found) > 1:
            raise KeyError(f"{name} is overloaded; use one of {', '.join(each.signature for each in found)}")
        return found[0]

    def event(self, name: str) -> Event:
        return self._event_names[name]


@dataclass(frozen=True, slots=True)
class Call:
    """One contract call, ready to be read, simulated or sent; `function` decodes what it returns."""

    to: str
    data: bytes
    function: Function
    errors: Mapping[bytes, CustomError] = field(repr=False, default_factory=dict)
    sender: str | None = None
    value_wei: int = 0

    def parameters(self) -> dict[str, str]:
        """The first parameter of eth_call and eth_estimateGas."""
        given = {"to": self.to, "data": "0x" + self.data.hex()}
        if self.sender:
            given["from"] = self.sender
        if self.value_wei:
            given["value"] = hex(self.value_wei)
        return given


class Contract:
    """An address and its ABI. `other_abis` are those whose custom errors may bubble up through this contract."""

    def __init__(self, address: str, abi: Abi | AbiEntries, *other_abis: Abi) -> None:
        self.address = to_checksum_address(address)
        self.abi = abi if isinstance(abi, Abi) else Abi(abi)
        self.errors: dict[bytes, CustomError] = {}
        for each in (*other_abis, self.abi):
            self.errors.update(each.errors)

    def call(self, name: str, *arguments: Any, sender: str | None = None) -> Call:
        function = self.abi.function(name)
        return Call(self.address, function.encode(*arguments), function, self.errors, sender)


def abi_decode(types: Sequence[str], data: bytes) -> tuple[Any, ...]:
    """eth_abi's decode, refusing data that is cut short before it looks.

    Tools in the same process (ape does) may register decoders that fill missing bytes with zeros.
    """
    if len(data) % 32 or len(data) < 32 * len(types):
        raise InsufficientDataBytes(f"{len(data)} bytes cannot hold ({','.join(types)})")
    return eth_abi_decode(types, data)


def checksum(address: str | bytes) -> str:
    """The EIP-55 form of an address given as text or 20 bytes."""
    return to_checksum_address(address)


def _signature(name: str, inputs: Sequence[Parameter]) -> str:
    return f"{name}({','.join(part.type for part in inputs)})"


def _decode_named(parts: Sequence[Parameter], data: bytes) -> dict[str, Any]:
    values = abi_decode([part.type for part in parts], data)
    return {
        part.name or str(position): part.shape(value)
        for position, (part, value) in enumerate(zip(parts, values, strict=True))
    }
