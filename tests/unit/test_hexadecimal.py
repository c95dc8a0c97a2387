"""Hexadecimal text has one home, and the rooms that use it write none by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hexadecimal import bytes_of, hex_of
from core.paths import REPOSITORY

HOME = "core/hexadecimal.py"
ROOMS = ("core", "api", "indexer", "keeper", "relayer", "scripts")
# Stands alone: it is published by itself.
CLIENT = REPOSITORY / "api" / "clients"
# Where a call less for each field of every log counts.
LOOPS = {"indexer/decode.py"}


@given(st.binary(max_size=80))
def test_bytes_come_back_from_their_text(value: bytes) -> None:
    assert hex_of(value) == f"0x{value.hex()}"
    assert bytes_of(hex_of(value)) == bytes_of(value.hex()) == bytes_of("0X" + value.hex().upper()) == value


@pytest.mark.parametrize(("text", "length"), [("0xabc", None), ("0xzz", None), ("0x0x00", None), ("0x00ff", 3)])
def test_what_is_no_hexadecimal_text_of_that_length_is_refused(text: str, length: int | None) -> None:
    with pytest.raises(ValueError, match=r"hexadecimal|expected"):
        bytes_of(text, length)


def made_by_hand(text: str) -> Iterator[int]:
    """The lines on which a module puts 0x before digits, or takes it off, itself."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.BinOp(ast.Constant("0x"), ast.Add(), right) if _is_digits(right):
                yield node.lineno
            case ast.JoinedStr(values):
                for before, after in pairwise(values):
                    if isinstance(before, ast.Constant) and str(before.value).endswith("0x") and _is_digits(after):
                        yield node.lineno
            case ast.Call(ast.Attribute(_, "fromhex"), [given]) if _is_shortened(given):
                yield node.lineno


def _is_digits(node: ast.AST) -> bool:
    if isinstance(node, ast.FormattedValue):
        node = node.value
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "hex"


def _is_shortened(node: ast.AST) -> bool:
    for each in ast.walk(node):
        match each:
            case ast.Slice(ast.Constant(2)) | ast.Attribute(_, "removeprefix"):
                return True
    return False


def test_no_room_makes_hexadecimal_text_by_hand() -> None:
    made = {
        f"{path}:{line}"
        for room in ROOMS
        for file in (REPOSITORY / room).rglob("*.py")
        if (path := str(file.relative_to(REPOSITORY))) not in {HOME, *LOOPS} and not file.is_relative_to(CLIENT)
        for line in made_by_hand(file.read_text())
    }
    assert made == set(), f"use {HOME}"


@pytest.mark.parametrize(
    "text",
    [
        '"0x" + value.hex()',
        '"0x" + (one + other).hex()',
        'f"of 0x{value.hex()}"',
        "bytes.fromhex(text[2:])",
        "bytes.fromhex(text[2:42])",
        'bytes.fromhex(text.removeprefix("0x"))',
        'bytes.fromhex(text[2:] if text[:2] == "0x" else text)',
    ],
)
def test_what_is_made_by_hand_is_seen(text: str) -> None:
    assert list(made_by_hand(text)) == [1]


@pytest.mark.parametrize(
    "text",
    ['"0x" + "11" * 20', 'bytes.fromhex("5b80")', "bytes.fromhex(topic[26:])", 'f"{hex_of(value)}"', "value.hex()"],
)
def test_what_is_written_out_may_be(text: str) -> None:
    assert list(made_by_hand(text)) == []
