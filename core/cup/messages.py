"""The messages that wallets sign (EIP-191 personal_sign), byte for byte, and recovery of the signer.

Lines are joined by newlines. No field can contain one (slugs and keys must exist, ids and times match patterns), so two
different requests never share a message.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from eth_utils.crypto import keccak

from core.cup.amounts import text_of
from core.hexadecimal import bytes_of, hex_of
from core.signatures import recover

WINDOW: Final = timedelta(minutes=5)


def trade_message(wallet: str, slug: str, side: str, size_cents: int, trade_id: str, issued_at: str) -> str:
    return "\n".join(
        (
            "Service Cup paper trade",
            f"Wallet: {wallet.lower()}",
            f"Market: {slug}",
            f"Side: {side}",
            f"Size: {text_of(size_cents)} pUSDC",
            f"Trade: {trade_id}",
            f"Issued: {issued_at}",
        )
    )


def bet_message(wallet: str, round_no: int, bet_key: str, stake_cents: int, issued_at: str) -> str:
    return "\n".join(
        (
            "Service Cup roulette bet",
            f"Wallet: {wallet.lower()}",
            f"Round: {round_no}",
            f"Bet: {bet_key}",
            f"Size: {text_of(stake_cents)} pUSDC",
            f"Issued: {issued_at}",
        )
    )


def enrolment_message(wallet: str, issued_at: str) -> str:
    return "\n".join(
        (
            "Service Cup agent enrollment",
            f"Wallet: {wallet.lower()}",
            "I operate this agent myself.",
            f"Issued: {issued_at}",
        )
    )


def signature_bytes(text: str) -> bytes | None:
    """Parse a 0x-prefixed hex signature of 65 bytes; None if malformed."""
    if not text.startswith(("0x", "0X")):
        return None
    try:
        return bytes_of(text, 65)
    except ValueError:
        return None


def signer_of(message: str, signature: bytes) -> str | None:
    """Return the lower-case address that signed `message`, or None if the signature is invalid."""
    parity = _parity(signature[64]) if len(signature) == 65 else None
    if parity is None:
        return None
    signer = recover(keccak(_personal(message.encode())), signature[:64], parity)
    return None if signer is None else hex_of(signer)


def _personal(message: bytes) -> bytes:
    """Return the bytes that EIP-191 personal_sign hashes."""
    return b"\x19Ethereum Signed Message:\n%d%b" % (len(message), message)


def _parity(v: int) -> int | None:
    """Return the parity (0 or 1) encoded in a signature's last byte: 0 or 1, 27 or 28, or EIP-155 with a chain id; None
    for any other value."""
    if v in (0, 1):
        return v
    if v in (27, 28):
        return v - 27
    return (v - 35) % 2 if v >= 35 else None


def parse_issued_at(text: str) -> datetime:
    """Parse ISO-8601 with an offset or Z; ValueError otherwise."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the time has no offset")
    return moment.astimezone(UTC)


def in_window(text: str, now: datetime) -> bool:
    """Return whether the time is within five minutes of `now`."""
    return abs(parse_issued_at(text) - now) <= WINDOW
