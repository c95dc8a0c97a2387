"""Conversion between bytes and 0x-prefixed hexadecimal."""

from __future__ import annotations


def hex_of(value: bytes) -> str:
    return "0x" + value.hex()


def bytes_of(text: str, length: int | None = None) -> bytes:
    """Parse hex with or without 0x. Raise ValueError if the text is not hex or not `length` bytes long."""
    value = bytes.fromhex(text[2:] if text[:2] in ("0x", "0X") else text)
    if length is not None and len(value) != length:
        raise ValueError(f"expected {length} bytes, got {len(value)}")
    return value
