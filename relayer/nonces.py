"""Makes a lane's nonces agree with the chain's, and finds the transaction that used a nonce. That transaction is in the
block where the key's transaction count passed the nonce. A missing receipt proves nothing, because nodes behind one URL
may be seconds apart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence

import msgspec

from core.chain import ChainClient, Receipt, RpcError, checksum
from core.chain.wire import BlockTransaction, quantity
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger
from relayer import metrics
from relayer.policy import expected_price, quote
from relayer.sending import REPLACEMENTS, LaneParts
from relayer.signing import Signed
from relayer.transactions import LaneTransaction, NonceTaker

log = get_logger(__name__)

# With this many of our transactions in a block, request all its receipts at once: for each single receipt a node reads
# the whole block.
MANY_IN_A_BLOCK = 64
# The first step back from the head in the search for a nonce's block; each further step is four times as long.
FIRST_STEP_BLOCKS = 8


Receipts = dict[int, tuple[Signed, Receipt]]
"""The attempts that were mined and their receipts, by nonce."""


async def receipts_of(client: ChainClient, transactions: Sequence[LaneTransaction]) -> Receipts:
    attempts = [(transaction, attempt) for transaction in transactions for attempt in transaction.attempts]
    if not attempts:
        return {}
    receipts = await client.receipts([hex_of(attempt.hash) for _, attempt in attempts])
    return {
        transaction.nonce: (attempt, receipt)
        for (transaction, attempt), receipt in zip(attempts, receipts, strict=True)
        if receipt is not None
    }


async def receipts_of_any(nodes: Sequence[ChainClient], transactions: Sequence[LaneTransaction]) -> Receipts:
    """Return the receipts that any of these nodes has. A node that does not respond does not hold up the others."""
    found: Receipts = {}
    for node in nodes:
        missing = [each for each in transactions if each.nonce not in found]
        with contextlib.suppress(RpcError):
            found |= await receipts_of(node, missing)
    return found


async def receipts_of_blocks(client: ChainClient, used: Sequence[LaneTransaction]) -> dict[bytes, Receipt]:
    """Return the receipts of all blocks that contain these transactions, by transaction hash. Return no receipts if the
    blocks hold fewer than MANY_IN_A_BLOCK of them on average. The transactions must be sorted by nonce."""
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


def match_receipts(transactions: Sequence[LaneTransaction], receipts: Mapping[bytes, Receipt]) -> Receipts:
    return {
        transaction.nonce: (attempt, receipts[attempt.hash])
        for transaction in transactions
        for attempt in transaction.attempts
        if attempt.hash in receipts
    }


class _FullBlock(msgspec.Struct, frozen=True, rename="camel"):
    hash: str
    transactions: tuple[BlockTransaction, ...]


async def find_transaction_by_nonce(client: ChainClient, address: str, nonce: int, head: int) -> NonceTaker | None:
    """Return the transaction of `address` with `nonce` up to block `head`. Return None if there is none, or if the node
    cannot tell because it is behind or has no state of those blocks."""
    try:
        number = await _block_of(client, address, nonce, head)
        if number is None:
            return None
        block = await client.provider.call_optional("eth_getBlockByNumber", [hex(number), True], _FullBlock)
    except RpcError:
        return None
    for each in () if block is None else block.transactions:
        if each.sender.lower() == address.lower() and quantity(each.nonce) == nonce:
            assert block is not None
            return NonceTaker(bytes_of(each.hash), number, bytes_of(block.hash))
    return None


async def _block_of(client: ChainClient, address: str, nonce: int, head: int) -> int | None:
    """Return the first block after which the transaction count of `address` is above `nonce`."""
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


def reconcile(*, latest: int, next_nonce: int, owned: Collection[int]) -> tuple[int, tuple[int, ...]]:
    """Return the lane's next nonce, and the holes. A hole is an unused nonce below the next one that belongs to no
    intent, and so blocks all later nonces. If the chain is ahead, the key was used elsewhere; continue after those
    transactions.

    latest: the chain's count of mined transactions.
    next_nonce: the nonce after the highest that any intent of the lane ever had.
    owned: the nonces of the lane's intents; below `latest`, only those of intents that are not final.
    """
    first_free, used = max(latest, next_nonce), set(owned)
    return first_free, tuple(nonce for nonce in range(latest, first_free) if nonce not in used)


class NonceRepair:
    """Repairs one lane's nonces. It skips nonces that foreign transactions used, and fills nonces that no intent owns
    with no-ops."""

    def __init__(self, parts: LaneParts) -> None:
        self._feed, self._store, self._transactions, self._sender, self._signer, self._policy = parts
        self._address = parts.store.lease.signer.label
        self._mismatch_since: float | None = None

    async def repair(self, latest: int, *, is_first_start: bool = False) -> bool:
        """Make the lane's nonces agree with the chain's. Return False while something seems wrong but is not certain,
        because one node's count at one moment proves nothing. If `is_first_start`, earlier transactions of the key do
        not count as foreign."""
        async with self._transactions.writing:
            if not self._in_order(latest):
                agreed = await self._agreed_count()
                if agreed is None:
                    return False
                if not self._in_order(agreed) and not (
                    await self._is_confirmed(agreed) and await self._repair(agreed, is_first_start)
                ):
                    return False
            self._mismatch_since = None
            return True

    def _in_order(self, latest: int) -> bool:
        """Return whether every nonce that the chain has not used belongs to an intent. Mined intents count too, because
        the node's count may lag behind the receipts that the node returned."""
        unused = range(latest, self._transactions.next_nonce)
        waiting = sum(1 for nonce in self._transactions.unmined if nonce >= latest)
        return latest <= unused.stop and (waiting == len(unused) or self._nonces_of_rows().issuperset(unused))

    def _nonces_of_rows(self) -> set[int]:
        return {
            *self._transactions.unmined,
            *(transaction.nonce for transactions in self._transactions.mined.values() for transaction in transactions),
        }

    async def _agreed_count(self) -> int | None:
        """Return the key's count at our head if every node that responds agrees on it."""
        head, counts = self._feed.head.number, set()
        for client in self._feed.nodes:
            try:
                counts.add(await client.eth.get_transaction_count(checksum(self._address), head))
            except RpcError:
                continue  # it is down, or has not seen this block
        return counts.pop() if len(counts) == 1 else None

    async def _is_confirmed(self, latest: int) -> bool:
        """Return whether this count is certain: either we found the transaction with the preceding nonce, or all nodes
        have agreed for `believe_after_seconds`."""
        now = asyncio.get_running_loop().time()
        if self._mismatch_since is None:
            self._mismatch_since = now
        if now - self._mismatch_since >= self._policy.patience.believe_after_seconds:
            return True
        if latest <= self._transactions.next_nonce:
            return False
        return (
            await find_transaction_by_nonce(self._feed.client, self._address, latest - 1, self._feed.head.number)
            is not None
        )

    async def _repair(self, latest: int, is_first_start: bool) -> bool:
        ended = await self._store.ended_from(latest)
        if ended and (
            await receipts_of(self._feed.client, ended) or await receipts_of_any(self._feed.nodes[1:], ended)
        ):
            return False  # there are receipts the count does not include yet
        before = self._transactions.next_nonce
        owned = self._nonces_of_rows().union(transaction.nonce for transaction in ended)
        next_nonce, holes = reconcile(latest=latest, next_nonce=before, owned=owned)
        noops = await self._sign_noops(holes)
        if not noops and not ended and next_nonce == before:
            return True
        if ended or holes or not is_first_start:
            change = {"was": before, "now": next_nonce, "unused": holes[:20], "undone": len(ended)}
            where = self._transactions.where
            log.warning("repaired the lane's nonces", action="relayer.nonces_repaired", **where, **change)
        if not is_first_start:
            metrics.FOREIGN.labels(**self._transactions.where).inc(next_nonce - before)
        if ended:
            await self._store.mark_dropped(ended)
            for transaction in ended:
                self._transactions.reopen(transaction)
            self._sender.push(ended)
        filled = await self._store.fill_holes(noops, next_nonce)
        self._transactions.next_nonce = next_nonce
        self._transactions.load(filled)
        metrics.HOLES.labels(**self._transactions.where).inc(len(filled))
        self._sender.push(filled)
        return True

    async def _sign_noops(self, holes: Sequence[int]) -> list[Signed]:
        """Sign no-ops for the holes, as many as the hourly gas limit and the signer allow now."""
        market = self._feed.market
        fees = quote(self._policy.fees, market)
        if fees is None or not holes:
            return []
        left = (
            self._policy.gas_per_hour_wei - self._transactions.spent_wei - self._transactions.expected_gas_wei(market)
        )
        # Rounded down: the last no-op must fit, too.
        paid = max(0, left) // max(1, self._signer.noop_gas * expected_price(fees, market))
        if paid < len(holes):
            message = f"the hourly gas limit allows filling only {paid} of {len(holes)} unused nonces now"
            log.warning(message, action="relayer.noops_over_allowance", **self._transactions.where)
        return await self._signer.sign([self._signer.noop(nonce, fees) for nonce in holes[: min(paid, REPLACEMENTS)]])
