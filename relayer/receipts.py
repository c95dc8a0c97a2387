"""Which of a lane's transactions were mined, by the receipts that a node has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.chain import ChainClient, Receipt, RpcError
from core.hexadecimal import bytes_of, hex_of
from relayer.transaction import Attempt, LaneTransaction

# So many transactions of ours in a block, and its receipts are asked for together: a node reads the whole block for
# each of them alone.
MANY_IN_A_BLOCK = 64


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


async def receipts_if_told(
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
