"""Which signed intent a payment belongs to, and the call that books it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PATIENCE_SECONDS = 60
"""So long a payer has to come back: then the API books the payment and answers with the receipt."""

SELECTOR_BYTES = 4


@dataclass(frozen=True, slots=True)
class Payment:
    """An authorization that brought money to the settlement wallet. `value` in token units, `at` in Unix seconds."""

    wallet: bytes
    nonce: bytes
    value: int
    at: int


@dataclass(frozen=True, slots=True)
class Sent:
    """A transaction of ours that carried a signed intent. `ended` without success, or still under way."""

    data: bytes
    ended: bool


@dataclass(frozen=True, slots=True)
class Trade:
    """A payment as the API took it in, and how often it has been tried."""

    idem_hash: bytes
    attempt: int


def why_wait(payment: Payment, now: int) -> str | None:
    """Why it is too soon, or None."""
    left = payment.at + PATIENCE_SECONDS - now
    return f"its payer has {left} s to come back" if left > 0 else None


def credit_data(payment: Payment, sent: Iterable[Sent], settle: bytes, credit: bytes) -> bytes | str:
    """The call data of `credit` for a payment, or why there is none.

    sent: the wallet's transactions, the newest first. settle, credit: selectors; both functions take the same intent
    and authorization, in which the nonce stands as one word.
    """
    found: bytes | None = None
    for each in sent:
        if each.data[:SELECTOR_BYTES] not in (settle, credit) or not _carries(each.data, payment.nonce):
            continue
        if not each.ended:
            return "a transaction that books it is under way"
        found = found or each.data
    if found is None:
        return "nobody has told us what it was to pay for"
    return credit + found[SELECTOR_BYTES:]


def carried(data: bytes, trades: Iterable[Trade]) -> Trade | None:
    """The trade whose intent this call data holds."""
    return next((each for each in trades if _carries(data, each.idem_hash)), None)


def _carries(data: bytes, word: bytes) -> bool:
    return any(data[at : at + 32] == word for at in range(SELECTOR_BYTES, len(data), 32))
