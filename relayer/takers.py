"""Who used a nonce of ours: the transaction itself, found in the block where the key's count passed that nonce.

A receipt that is missing proves nothing: nodes behind one URL differ by seconds. The transaction of that sender and
nonce does.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from core.chain import ChainClient, RpcError, checksum
from core.chain.wire import BlockTransaction, quantity
from core.hexadecimal import bytes_of

# The first step back from the head; it grows fourfold until the count is that of before.
FIRST_STEP_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class Taker:
    """A mined transaction, by its hash and its block's."""

    tx_hash: bytes
    block_number: int
    block_hash: bytes


class _FullBlock(msgspec.Struct, frozen=True, rename="camel"):
    hash: str
    transactions: tuple[BlockTransaction, ...]


async def find_taker(client: ChainClient, address: str, nonce: int, head: int) -> Taker | None:
    """The transaction of `address` with `nonce` up to block `head`; None when there is none, or nobody can say: the
    node has no state of those blocks, or is behind."""
    try:
        number = await _block_of(client, address, nonce, head)
        if number is None:
            return None
        block = await client.provider.optional("eth_getBlockByNumber", [hex(number), True], _FullBlock)
    except RpcError:
        return None
    for each in () if block is None else block.transactions:
        if each.sender.lower() == address.lower() and quantity(each.nonce) == nonce:
            assert block is not None
            return Taker(bytes_of(each.hash), number, bytes_of(block.hash))
    return None


async def _block_of(client: ChainClient, address: str, nonce: int, head: int) -> int | None:
    """The first block after which the count is above `nonce`."""
    if await client.eth.get_transaction_count(checksum(address), head) <= nonce:
        return None
    above, below, step = head, head - FIRST_STEP_BLOCKS, FIRST_STEP_BLOCKS
    while below >= 0 and await client.eth.get_transaction_count(checksum(address), below) > nonce:
        step *= 4
        above, below = below, below - step
    below = max(below, -1)
    while above - below > 1:
        middle = (above + below) // 2
        if await client.eth.get_transaction_count(checksum(address), middle) > nonce:
            above = middle
        else:
            below = middle
    return above
