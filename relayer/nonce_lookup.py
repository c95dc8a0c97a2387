"""Finds which transaction used a nonce of a lane: one of ours by its receipt, or a foreign one by its block.

A receipt that is missing proves nothing: nodes behind one URL differ by seconds. A transaction of that sender and nonce
does, and is found in the block where the key's count passed the nonce.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from core.chain import ChainClient, Receipt, RpcError, checksum
from core.chain.wire import BlockTransaction, quantity
from core.hexadecimal import bytes_of, hex_of
from relayer.transaction import Attempt, LaneTransaction, Taker

# So many transactions of ours in a block, and its receipts are asked for together: a node reads the whole block for
# each of them alone.
MANY_IN_A_BLOCK = 64
# The first step back from the head; it grows fourfold until the count is that of before.
FIRST_STEP_BLOCKS = 8


async def receipts_of(
    client: ChainClient, transactions: Sequence[LaneTransaction]
) -> dict[int, tuple[Attempt, Receipt]]:
    """By nonce, the attempt that was mined."""
    asked = [(transaction, attempt) for transaction in transactions for attempt in transaction.attempts]
    if not asked:
        return {}
    receipts = await client.receipts([hex_of(attempt.hash) for _, attempt in asked])
    return {
        transaction.nonce: (attempt, receipt)
        for (transaction, attempt), receipt in zip(asked, receipts, strict=True)
        if receipt is not None
    }


async def receipts_if_any(
    node: ChainClient, transactions: Sequence[LaneTransaction]
) -> dict[int, tuple[Attempt, Receipt]]:
    """Those that one node of several has. None while it is away: the others' word is not held up by it."""
    try:
        return await receipts_of(node, transactions)
    except RpcError:
        return {}


async def receipts_of_blocks(client: ChainClient, used: Sequence[LaneTransaction]) -> dict[bytes, Receipt]:
    """By hash, the receipts of the blocks that hold very many of these, which are in the order of their nonces."""
    if len(used) < MANY_IN_A_BLOCK:
        return {}
    ends = await receipts_of(client, [used[0], used[-1]])
    if len(ends) < 2:
        return {}
    first, last = (ends[each.nonce][1].block_number for each in (used[0], used[-1]))
    if (last - first + 1) * MANY_IN_A_BLOCK > len(used):
        return {}
    receipts = await client.block_receipts(range(first, last + 1))
    return {bytes_of(each.transaction_hash): each for each in receipts}


def chosen(
    transactions: Sequence[LaneTransaction], receipts: Mapping[bytes, Receipt]
) -> dict[int, tuple[Attempt, Receipt]]:
    """By nonce, the attempt that one of these receipts is of."""
    return {
        transaction.nonce: (attempt, receipts[attempt.hash])
        for transaction in transactions
        for attempt in transaction.attempts
        if attempt.hash in receipts
    }


class _FullBlock(msgspec.Struct, frozen=True, rename="camel"):
    hash: str
    transactions: tuple[BlockTransaction, ...]


async def find_transaction_by_nonce(client: ChainClient, address: str, nonce: int, head: int) -> Taker | None:
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
