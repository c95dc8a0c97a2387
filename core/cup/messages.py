"""What a wallet signs (EIP-191 personal_sign), byte for byte, and who signed it.

The texts are joined by newlines. Slugs and keys are those of a market or of the wheel before a signature counts, ids
and times come from patterns: none has a newline, so no two requests share a message.
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
    """Return the 65 bytes of a 0x-prefixed hex signature, or None."""
    if not text.startswith(("0x", "0X")):
        return None
    try:
        return bytes_of(text, 65)
    except ValueError:
        return None


def signer_of(message: str, signature: bytes) -> str | None:
    """Return the lower-case address whose key signed `message`, or None when the signature is no signature."""
    parity = _parity(signature[64]) if len(signature) == 65 else None
    if parity is None:
        return None
    signer = recover(keccak(_personal(message.encode())), signature[:64], parity)
    return None if signer is None else hex_of(signer)


def _personal(message: bytes) -> bytes:
    """Return what EIP-191 personal_sign hashes."""
    return b"\x19Ethereum Signed Message:\n%d%b" % (len(message), message)


def _parity(v: int) -> int | None:
    """0 or 1 of a signature's last byte: 0 and 1 as such, 27 and 28, or as EIP-155 writes it with a chain's id. None of
    any other."""
    if v in (0, 1):
        return v
    if v in (27, 28):
        return v - 27
    return (v - 35) % 2 if v >= 35 else None


def parse_issued_at(text: str) -> datetime:
    """ISO-8601 with an offset or Z; ValueError otherwise."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without an offset")
    return moment.astimezone(UTC)


def in_window(text: str, now: datetime) -> bool:
    """Return whether it was issued within five minutes of `now`, either way."""
    return abs(parse_issued_at(text) - now) <= WINDOW
