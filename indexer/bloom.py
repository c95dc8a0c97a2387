"""Whether a header's bloom filter allows that its block holds logs of ours.

A bloom never denies a log that is there. So "the bloom allows, the node answered with none" is worth a second question,
and "the bloom denies" is proof that there is none.
"""

from __future__ import annotations

from eth_utils.crypto import keccak

from core.contracts.events.token import TRANSFER
from core.hexadecimal import bytes_of
from indexer.sources import Sources


def mask(value: bytes) -> int:
    """The three bits a value sets, of 2048."""
    digest = keccak(value)
    bits = 0
    for at in (0, 2, 4):
        bits |= 1 << (int.from_bytes(digest[at : at + 2]) & 2047)
    return bits


class BloomTest:
    """What a chain's sources may have logged, as masks."""

    def __init__(self, sources: Sources) -> None:
        self._contracts = [
            (mask(each.address), tuple(mask(bytes_of(topic)) for topic in each.layouts))
            for each in sources.emitters.values()
            if each.address != sources.token
        ]
        self._payments: tuple[int, ...] = ()
        if sources.token is not None and sources.transfer_filter is not None:
            transfer = mask(sources.token) | mask(TRANSFER.topic)
            recipients = sources.transfer_filter["topics"][2]
            self._payments = tuple(transfer | mask(bytes_of(each)) for each in recipients)

    def allows_ours(self, bits: int) -> bool:
        """An event of our contracts or feeds."""
        return any(
            bits & address == address and any(bits & topic == topic for topic in topics)
            for address, topics in self._contracts
        )

    def allows_payment(self, bits: int) -> bool:
        """A transfer of the token to one of our contracts."""
        return any(bits & payment == payment for payment in self._payments)
