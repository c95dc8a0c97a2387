"""What a wallet holds, and when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Funds:
    """A wallet's token units at the end of a block. What a later block takes, whoever tells of it, is still in them."""

    amount: int
    block: int
