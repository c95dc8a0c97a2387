"""Bytes as hexadecimal text and back: the one place that knows of 0x."""

from __future__ import annotations


def hex_of(value: bytes) -> str:
    """Lower-case, with 0x: as nodes write data, and as contracts' addresses are decoded."""
    return "0x" + value.hex()


def bytes_of(text: str, length: int | None = None) -> bytes:
    """Hex with or without 0x as bytes; ValueError when it is not hex or not of `length` bytes."""
    value = bytes.fromhex(text[2:] if text[:2] in ("0x", "0X") else text)
    if length is not None and len(value) != length:
        raise ValueError(f"expected {length} bytes, got {len(value)}")
    return value
