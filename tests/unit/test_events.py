"""Every event's decoder against eth-abi."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from eth_abi.abi import decode, encode
from eth_utils.abi import get_abi_input_types

from core.contracts.events import Layout, Role, UndecodableLog, layouts_of

EVENTS = [(role, each) for role in Role for each in layouts_of(role).values()]


class Field(NamedTuple):
    """An argument of an event; a struct's type is spelled by those of its fields."""

    name: str
    type: str
    indexed: bool


def declared(layout: Layout) -> list[Field]:
    kinds = zip(layout.entry["inputs"], get_abi_input_types(layout.entry), strict=True)
    return [Field(part["name"], kind, part["indexed"]) for part, kind in kinds]


def values(kind: str, rng: random.Random) -> Any:
    edge = rng.random() < 0.3
    if kind.endswith("[]"):
        return [values(kind[:-2], rng) for _ in range(rng.randrange(16))]
    if kind.startswith("("):
        return tuple(values(each, rng) for each in kind[1:-1].split(","))
    if kind.startswith("uint"):
        top = 2 ** int(kind[4:]) - 1
        return rng.choice((0, 1, top)) if edge else rng.randint(0, top)
    if kind.startswith("int"):
        top = 2 ** (int(kind[3:]) - 1)
        return rng.choice((0, -1, top - 1, -top)) if edge else rng.randint(-top, top - 1)
    if kind == "address":
        return rng.randbytes(20)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "string":
        return rng.choice(("", "NVDA", "prices – €, 日本", "x" * 100))
    assert kind == "bytes32"
    return rng.randbytes(32)


def log(layout: Layout, rng: random.Random) -> tuple[bytes, bytes]:
    parts = declared(layout)
    chosen = {part.name: values(part.type, rng) for part in parts}
    topics = layout.topic + b"".join(encode([part.type], [chosen[part.name]]) for part in parts if part.indexed)
    plain = [part for part in parts if not part.indexed]
    return topics, encode([part.type for part in plain], [chosen[part.name] for part in plain])


def by_eth_abi(layout: Layout, topics: bytes, data: bytes) -> list[Any]:
    """What eth-abi reads, in the order of the declaration. An indexed text or list is the word of its hash."""
    parts = declared(layout)
    words = iter(topics[at : at + 32] for at in range(32, len(topics), 32))
    plain = iter(decode([part.type for part in parts if not part.indexed], data))
    return [
        next(plain)
        if not part.indexed
        else word
        if part.type.endswith("]") or part.type in ("string", "bytes")
        else decode([part.type], word)[0]
        for part in parts
        for word in ([next(words)] if part.indexed else [b""])
    ]


def flat(value: Any) -> list[Any]:
    """Structs and lists laid out one after another, eth-abi's text addresses as bytes."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    if isinstance(value, list | tuple):
        return [part for each in value for part in flat(each)]
    if isinstance(value, str) and len(value) == 42 and value.startswith("0x"):
        return [bytes.fromhex(value[2:])]
    return [value]


@pytest.mark.parametrize(("role", "layout"), EVENTS, ids=[f"{role}-{each.name}" for role, each in EVENTS])
def test_a_decoder_reads_what_eth_abi_reads(role: Role, layout: Layout) -> None:
    rng = random.Random(layout.name)
    for _ in range(200):
        topics, data = log(layout, rng)
        assert flat(layout.read(topics, data)) == flat(by_eth_abi(layout, topics, data))


@pytest.mark.parametrize(("role", "layout"), EVENTS, ids=[f"{role}-{each.name}" for role, each in EVENTS])
def test_a_log_of_other_sizes_is_refused(role: Role, layout: Layout) -> None:
    topics, data = log(layout, random.Random(1))
    with pytest.raises(UndecodableLog):
        layout.read(topics + bytes(32), data)
    with pytest.raises(UndecodableLog):
        layout.read(topics[:-32], data)
    if data:
        with pytest.raises(UndecodableLog):
            layout.read(topics, data[:31])
    if layout.data_bytes is not None:
        with pytest.raises(UndecodableLog):
            layout.read(topics, data + bytes(32))


def dynamic() -> Iterator[Layout]:
    return (layout for _, layout in EVENTS if layout.data_bytes is None)


@pytest.mark.parametrize("layout", list(dynamic()), ids=lambda layout: layout.name)
def test_offsets_outside_the_data_are_refused(layout: Layout) -> None:
    rng = random.Random(2)
    topics, data = log(layout, rng)
    for _ in range(300):
        at = rng.randrange(len(data) // 32) * 32
        broken = data[:at] + rng.choice((b"\xff" * 32, bytes(31) + b"\xff", len(data).to_bytes(32))) + data[at + 32 :]
        try:
            layout.read(topics, broken)
        except UndecodableLog:
            continue


def test_text_that_no_column_takes_is_made_storable() -> None:
    layout = next(each for each in layouts_of(Role.LISTER).values() if each.name == "FeedSet")
    topics, _ = log(layout, random.Random(3))
    ticker = b"N\0\xffA"
    data = encode(["bytes", "uint32", "uint32", "bool"], [ticker, 1, 2, True])
    assert layout.read(topics, data).ticker == "N��A"


def test_the_entity_of_a_position_is_its_market() -> None:
    layouts = {each.name: each for each in layouts_of(Role.SETTLER).values()}
    market_id, position_id = 77, 77 << 32 | 5 << 1 | 1
    entered = layouts["Entered"].topic + market_id.to_bytes(32) + position_id.to_bytes(32) + bytes(32)
    delivered = layouts["Delivered"].topic + position_id.to_bytes(32) + bytes(32)
    of_entered, of_delivered = layouts["Entered"].entity, layouts["Delivered"].entity
    assert of_entered is not None
    assert of_delivered is not None
    assert of_entered(entered, b"") == of_delivered(delivered, b"") == b"m" + market_id.to_bytes(8)
