"""Byte layouts of event logs, generated from ABIs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, get_type_hints

import msgspec
from eth_abi.abi import decode as abi_decode
from eth_abi.exceptions import DecodingError
from eth_typing import ABIComponent, ABIEvent
from eth_utils.abi import event_abi_to_log_topic

from core.errors import VpmError

WORD = 32

Decoder: TypeAlias = Callable[[bytes, bytes], Any]
"""Decodes joined topics and data, whose sizes have been checked, to a typed event."""

num = int.from_bytes  # big-endian by default


class UndecodableLog(VpmError):
    """A log does not have the layout of its event."""

    code = "log_undecodable"


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one event of one contract.

    entity: returns a short key of the entity that an event changes; `entity` itself is None if the event only adds a
    row. The logs of one entity can be folded on their own, in chain order.
    data_bytes: the exact size of the data, or None if it varies.
    """

    entry: ABIEvent
    decode: Decoder
    entity: Callable[[bytes, bytes], bytes] | None
    data_bytes: int | None
    least_data_bytes: int
    topics_bytes: int
    name: str
    topic: bytes

    def fits(self, topics: bytes, data: bytes) -> bool:
        if len(topics) != self.topics_bytes:
            return False
        return len(data) == self.data_bytes if self.data_bytes is not None else len(data) >= self.least_data_bytes

    def read(self, topics: bytes, data: bytes) -> Any:
        """Decode the typed event. Raise UndecodableLog if the sizes are wrong or an offset points outside the data."""
        if not self.fits(topics, data):
            raise UndecodableLog(
                f"{self.name}: {len(topics) // WORD} topics and {len(data)} bytes of data do not match its layout."
            )
        return self.decode(topics, data)


def layout(
    entry: ABIEvent, decode: Decoder | type[msgspec.Struct], entity: Callable[[bytes, bytes], bytes] | None = None
) -> Layout:
    """Make an event's layout from its ABI.

    decode: a struct whose fields are the event's arguments in order, for which a decoder is generated. If the struct
    leaves arguments out or combines them, pass a decoder instead.
    """
    plain = [each for each in entry["inputs"] if not each["indexed"]]
    size = sum(map(_head_words, plain)) * WORD
    topics = 1 + len(entry["inputs"]) - len(plain)
    made = _decoder(entry, decode) if isinstance(decode, type) else decode
    exact, topic = None if any(map(_is_dynamic, plain)) else size, event_abi_to_log_topic(entry)
    return Layout(entry, made, entity, exact, size, topics * WORD, entry["name"], topic)


def _decoder(entry: ABIEvent, event: type[msgspec.Struct]) -> Decoder:
    """Generate a decoder that slices an event's fields out of topics and data.

    The decoder is generated as source code and compiled once, like the methods of a dataclass: a loop over the fields
    takes twice as long.
    """
    names: dict[str, Any] = {"num": num, "text": text, "tail": tail, event.__name__: event}
    hints = get_type_hints(event)
    cuts = []
    topic = word = 0
    for part, field_name in zip(entry["inputs"], event.__struct_fields__, strict=True):
        if part["indexed"]:
            topic += 1
            cuts.append(_cut(part, "t", topic, None, names))
        else:
            cuts.append(_cut(part, "d", word, hints[field_name], names))
            word += _head_words(part)
    source = f"lambda t, d: {event.__name__}({', '.join(cuts)})"
    made: Decoder = eval(source, names)  # noqa: S307 - source made from our ABIs
    return made


def _cut(part: ABIComponent, place: str, word: int, struct: Any, names: dict[str, Any]) -> str:
    """Return the source code of an expression that reads the value at position `word` (in words) of `place`, which is
    `t` (topics) or `d` (data)."""
    kind, start, end = part["type"], word * WORD, (word + 1) * WORD
    if kind == "tuple":
        names[struct.__name__] = struct
        cuts = (_cut(each, place, word + number, None, names) for number, each in enumerate(part["components"]))
        return f"{struct.__name__}({', '.join(cuts)})"
    if kind == "string":
        return f"text(tail(d, {word}))"
    if kind == "bool":
        return f"{place}[{end - 1}] != 0"
    if kind == "address":
        return f"{place}[{end - 20}:{end}]"
    if kind == "bytes32":
        return f"{place}[{start}:{end}]"
    if kind == "uint8":
        return f"{place}[{end - 1}]"
    if re.fullmatch(r"u?int\d+", kind):
        return f"num({place}[{start}:{end}]{', signed=True' if kind.startswith('int') else ''})"
    raise ValueError(f"cannot generate a decoder for {kind}; write one by hand")


def decode_with_eth_abi(name: str, kinds: list[str], data: bytes) -> tuple[Any, ...]:
    """Decode data with eth-abi. Use this only for rare events, since eth-abi is slow."""
    try:
        return abi_decode(kinds, data)
    except (DecodingError, OverflowError) as error:
        raise UndecodableLog(f"{name}: its data cannot be decoded: {error}.") from None


def by_topic(*layouts: Layout) -> dict[bytes, Layout]:
    return {each.topic: each for each in layouts}


def tail(data: bytes, position: int) -> bytes:
    """Return the dynamic value whose offset is stored in the data at word `position`."""
    offset = num(data[position * WORD : position * WORD + WORD])
    start = offset + WORD
    if start > len(data):
        raise UndecodableLog(f"an offset of {offset} points outside {len(data)} bytes of data.")
    size = num(data[offset:start])
    if size > len(data) - start:
        raise UndecodableLog(f"a value of {size} bytes does not fit into {len(data)} bytes of data.")
    return data[start : start + size]


def text(raw: bytes) -> str:
    """Return untrusted text in a form that the database can store: invalid UTF-8 and NUL become the replacement
    character."""
    return raw.decode("utf-8", "replace").replace("\0", "\ufffd")


def _is_dynamic(part: ABIComponent) -> bool:
    if part["type"] == "tuple":
        return any(map(_is_dynamic, part["components"]))
    return part["type"] in ("string", "bytes") or part["type"].endswith("[]")


def _head_words(part: ABIComponent) -> int:
    """Return the number of words that a value occupies in the head: one for a simple value or for a dynamic value's
    offset."""
    return sum(map(_head_words, part["components"])) if part["type"] == "tuple" and not _is_dynamic(part) else 1
