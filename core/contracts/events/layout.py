"""How one kind of log lies in bytes, and the few helpers decoders share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_type_hints

import msgspec
from eth_abi.abi import decode as abi_decode
from eth_abi.exceptions import DecodingError
from eth_utils.crypto import keccak

from core.errors import VpmError

WORD = 32

Decoder: TypeAlias = Callable[[bytes, bytes], Any]
"""From the joined topics and the data, whose sizes have been checked, to a typed event."""

num = int.from_bytes  # big-endian by default; the name decoders use for "this word is a number"


class UndecodableLog(VpmError):
    """A log of a contract we follow does not have the layout its topic promises."""

    code = "log_undecodable"


@dataclass(frozen=True, slots=True)
class Layout:
    """One event of one contract.

    decode: from the joined topics and the data, whose sizes have been checked, to a typed event.
    entity: what the event changes, as a short key; logs of one entity can be folded alone, in chain order. None for an
    event that only adds a row of its own.
    data_bytes: the exact size of the data, or None where strings or bytes make it vary (`least_data_bytes` then holds).
    """

    signature: str
    decode: Callable[[bytes, bytes], Any]
    entity: Callable[[bytes, bytes], bytes] | None
    data_bytes: int | None
    least_data_bytes: int
    topics_bytes: int
    name: str = field(init=False)
    topic: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.signature.split("(", 1)[0])
        object.__setattr__(self, "topic", topic_of(self.signature))

    def fits(self, topics: bytes, data: bytes) -> bool:
        """Whether sizes are as the layout needs them."""
        if len(topics) != self.topics_bytes:
            return False
        return len(data) == self.data_bytes if self.data_bytes is not None else len(data) >= self.least_data_bytes

    def read(self, topics: bytes, data: bytes) -> Any:
        """The typed event; UndecodableLog when the sizes are wrong or an offset points outside the data."""
        if not self.fits(topics, data):
            raise UndecodableLog(
                f"{self.name}: {len(topics) // WORD} topics and {len(data)} bytes of data are not its layout."
            )
        return self.decode(topics, data)


def layout(
    signature: str,
    decode: Decoder | type[msgspec.Struct],
    entity: Callable[[bytes, bytes], bytes] | None = None,
) -> Layout:
    """A layout from the event's declaration as it stands in the interface: types, `indexed` and names. A struct is
    spelled by the types of its fields, without a space: `(uint80,int256,uint64) end`.

    decode: the typed event, whose fields are the arguments in their order; its decoder is made from the declaration.
    A decoder of its own is for what the event leaves out, or puts together in another way.
    """
    indexed = plain = 0
    dynamic = False
    for argument in arguments(signature):
        kind, *rest = argument.split()
        if "indexed" in rest:
            indexed += 1
        else:
            plain += _head_words(kind)
            dynamic = dynamic or _is_dynamic(kind)
    size = plain * WORD
    if isinstance(decode, type):
        decode = decoder(signature, decode)
    return Layout(signature, decode, entity, None if dynamic else size, size, (1 + indexed) * WORD)


def decoder(signature: str, event: type[msgspec.Struct]) -> Decoder:
    """Cuts an event's fields out of topics and data at the places that follow from its declaration.

    Made as source and compiled once, as dataclasses are: it runs as if it had been written by hand, which the log path
    needs, since a loop over the fields takes twice as long.
    """
    names: dict[str, Any] = {"num": num, "text": text, "tail": tail, event.__name__: event}
    hints = get_type_hints(event)
    cuts = []
    topic = word = 0
    for argument, field_name in zip(arguments(signature), event.__struct_fields__, strict=True):
        kind, *rest = argument.split()
        if "indexed" in rest:
            topic += 1
            cuts.append(_cut(kind, "t", topic))
        else:
            cuts.append(_cut(kind, "d", word, hints[field_name], names))
            word += _head_words(kind)
    source = f"lambda t, d: {event.__name__}({', '.join(cuts)})"
    made: Decoder = eval(source, names)  # noqa: S307 - of our own declarations
    return made


def _cut(kind: str, place: str, word: int, struct: Any = None, names: dict[str, Any] | None = None) -> str:
    """The expression that reads one value: `place` is the topics or the data, `word` where it stands there."""
    start, end = word * WORD, (word + 1) * WORD
    if kind.startswith("(") and names is not None:
        names[struct.__name__] = struct
        parts = (_cut(each, place, word + number) for number, each in enumerate(_parts(kind[1:-1])))
        return f"{struct.__name__}({', '.join(parts)})"
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
    raise ValueError(f"no decoder can be made for {kind}: write one")


def decoded(name: str, kinds: list[str], data: bytes) -> tuple[Any, ...]:
    """Data of these types by the general decoder, for events too rare for one that cuts bytes at known offsets."""
    try:
        return abi_decode(kinds, data)
    except (DecodingError, OverflowError) as error:
        raise UndecodableLog(f"{name}: its data cannot be read: {error}.") from None


def topic_of(signature: str) -> bytes:
    """The first topic: the hash of the canonical signature."""
    name = signature.split("(", 1)[0]
    kinds = ",".join(argument.split()[0] for argument in arguments(signature))
    return keccak(text=f"{name}({kinds})")


def by_topic(*layouts: Layout) -> dict[bytes, Layout]:
    return {each.topic: each for each in layouts}


def tail(data: bytes, position: int) -> bytes:
    """The dynamic value whose offset stands in word `position`."""
    offset = num(data[position * WORD : position * WORD + WORD])
    start = offset + WORD
    if start > len(data):
        raise UndecodableLog(f"an offset of {offset} points outside {len(data)} bytes of data.")
    size = num(data[offset:start])
    if size > len(data) - start:
        raise UndecodableLog(f"a value of {size} bytes does not fit into {len(data)} bytes of data.")
    return data[start : start + size]


def text(raw: bytes) -> str:
    """Text that anybody may have written, made storable: broken UTF-8 and NUL become the replacement character."""
    return raw.decode("utf-8", "replace").replace("\0", "\ufffd")


def arguments(signature: str) -> list[str]:
    """The arguments of a declaration, each as it stands there: `address indexed feed`."""
    return _parts(signature[signature.index("(") + 1 : signature.rindex(")")])


def _parts(listed: str) -> list[str]:
    """What commas separate, those within brackets apart."""
    parts, depth = [""], 0
    for character in listed:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [re.sub(r"\s+", " ", part.strip()) for part in parts if part.strip()]


def _is_dynamic(kind: str) -> bool:
    if kind.startswith("(") and kind.endswith(")"):
        return any(_is_dynamic(each) for each in _parts(kind[1:-1]))
    return kind in ("string", "bytes") or kind.endswith("[]")


def _head_words(kind: str) -> int:
    """Words a value takes where it stands: one for a value or an offset, those of its fields for a struct."""
    if kind.startswith("(") and kind.endswith(")") and not _is_dynamic(kind):
        return sum(_head_words(each) for each in _parts(kind[1:-1]))
    return 1
