"""Addresses as text."""

from __future__ import annotations


def address_text(address: bytes) -> str:
    """Lower-case, as contracts' answers are decoded."""
    return "0x" + address.hex()
