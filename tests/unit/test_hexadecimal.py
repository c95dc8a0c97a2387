"""Bytes written as hexadecimal text are read back as they were, and anything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.hexadecimal import bytes_of, hex_of


@given(st.binary(max_size=80))
def test_bytes_come_back_from_their_text(value: bytes) -> None:
    assert hex_of(value) == f"0x{value.hex()}"
    assert bytes_of(hex_of(value)) == bytes_of(value.hex()) == bytes_of("0X" + value.hex().upper()) == value


@pytest.mark.parametrize(("text", "length"), [("0xabc", None), ("0xzz", None), ("0x0x00", None), ("0x00ff", 3)])
def test_what_is_no_hexadecimal_text_of_that_length_is_refused(text: str, length: int | None) -> None:
    with pytest.raises(ValueError, match=r"hexadecimal|expected"):
        bytes_of(text, length)
