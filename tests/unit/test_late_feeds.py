"""A proxy that sees rounds late is recognized by the aggregator's code, which holds the proxy's address."""

from __future__ import annotations

from scripts._deploy.stock import is_svr_aggregator

PROXY = "0x379EC4f7C378F34a1B47E4F3cbeBCbAC3E8E9F15"
OTHER = "0x4A1166a659A55625345e9515b32adECea5547C38"


def pushed(address: str) -> bytes:
    """An immutable address as solc writes it into code: PUSH32 of the padded word."""
    return b"\x7f" + bytes(12) + bytes.fromhex(address[2:])


def test_the_late_proxy_of_a_dual_aggregator_is_recognized() -> None:
    code = bytes.fromhex("6080604052") + pushed(PROXY) + bytes.fromhex("3314")
    assert is_svr_aggregator(PROXY, code)
    assert is_svr_aggregator(PROXY.lower(), code)
    assert not is_svr_aggregator(OTHER, code)  # its standard proxy, on the same aggregator
    assert not is_svr_aggregator(PROXY, b"")
