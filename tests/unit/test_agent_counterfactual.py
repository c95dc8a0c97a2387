"""Signatures of wallets that their factory has yet to make, as ERC-6492 wraps them."""

from __future__ import annotations

import pytest
from eth_abi.abi import encode

from api.agent.wallet_signatures import Counterfactual, counterfactual

MARK = bytes.fromhex("6492" * 16)
FACTORY = bytes.fromhex("fa" * 20)


def wrapped(call: bytes, signature: bytes) -> bytes:
    return encode(["address", "bytes", "bytes"], [FACTORY, call, signature]) + MARK


def test_what_is_wrapped() -> None:
    assert counterfactual(wrapped(b"make it", b"signed")) == Counterfactual(FACTORY, b"make it", b"signed")


@pytest.mark.parametrize("signature", [b"", b"\x01" * 65, MARK[1:], MARK + b"\x01"])
def test_a_signature_of_another_kind(signature: bytes) -> None:
    assert counterfactual(signature) is None


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 96, FACTORY * 5, encode(["address", "bytes"], [FACTORY, b""]), bytes(64) + b"\xff" * 32]
)
def test_a_wrapping_of_nothing(content: bytes) -> None:
    assert counterfactual(content + MARK) is None


def test_no_more_than_a_call_can_carry() -> None:
    assert counterfactual(wrapped(b"\x01" * 0x6000, b"\x02" * 0x1000)) is not None
    assert counterfactual(wrapped(b"\x01" * 0x6000, b"\x02" * 0x1001)) is None
