"""Makes a lane's nonces agree with the chain's, and finds which transaction used a nonce.

A receipt that is missing proves nothing: nodes behind one URL differ by seconds. A transaction of that sender and nonce
does, and is found in the block where the key's count passed the nonce.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from core.chain import ChainClient, Receipt, RpcError, checksum
from core.chain.wire import BlockTransaction, quantity
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger
from relayer import metrics
from relayer.policy import expected_price, quote
from relayer.sending import REPLACEMENTS, LaneParts
from relayer.signing import Signed
from relayer.transactions import LaneTransaction, NonceUse

log = get_logger(__name__)

# So many transactions of ours in a block, and its receipts are asked for together: a node reads the whole block for
# each of them alone.
MANY_IN_A_BLOCK = 64
# The first step back from the head; it grows fourfold until the count is that of before.
FIRST_STEP_BLOCKS = 8


async def receipts_of(
    client: ChainClient, transactions: Sequence[LaneTransaction]
) -> dict[int, tuple[Signed, Receipt]]:
    """Return the attempt that was mined, by nonce."""
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
) -> dict[int, tuple[Signed, Receipt]]:
    """Return those that one node of several has. None while it is away: the others' word is not held up by it."""
    try:
        return await receipts_of(node, transactions)
    except RpcError:
        return {}


async def receipts_of_blocks(client: ChainClient, used: Sequence[LaneTransaction]) -> dict[bytes, Receipt]:
    """Return the receipts of the blocks that hold very many of these, by hash, which are in the order of their
    nonces."""
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
) -> dict[int, tuple[Signed, Receipt]]:
    """Return the attempt that one of these receipts is of, by nonce."""
    return {
        transaction.nonce: (attempt, receipts[attempt.hash])
        for transaction in transactions
        for attempt in transaction.attempts
        if attempt.hash in receipts
    }


class _FullBlock(msgspec.Struct, frozen=True, rename="camel"):
    hash: str
    transactions: tuple[BlockTransaction, ...]


async def find_transaction_by_nonce(client: ChainClient, address: str, nonce: int, head: int) -> NonceUse | None:
    """Return the transaction of `address` with `nonce` up to block `head`; None when there is none, or no node can say:
    the node has no state of those blocks, or is behind."""
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
            return NonceUse(bytes_of(each.hash), number, bytes_of(block.hash))
    return None


async def _block_of(client: ChainClient, address: str, nonce: int, head: int) -> int | None:
    """Return the first block after which the count is above `nonce`."""
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


@dataclass(frozen=True, slots=True)
class Reconciled:
    """A lane's nonces after its rows were compared with the chain. next_nonce: the first free one. holes: unused nonces
    below it that belong to no intent and block all later ones. reopened: nonces of ended intents that the chain
    says are unused, after a reorg deeper than finality."""

    next_nonce: int
    holes: tuple[int, ...] = ()
    reopened: tuple[int, ...] = ()


def reconcile(*, latest: int, owned: int, live: Collection[int], ended: Collection[int]) -> Reconciled:
    """Return the nonces as they must be.

    latest: the chain's count of mined transactions. owned: the nonce after the highest that any intent of the lane ever
    had. live: nonces of intents signed, sent or mined but not final. ended: nonces at or above `latest` of intents that
    ended.

    - The chain is ahead: the key was used elsewhere; what is mined cannot be undone, so go on after it.
    - A nonce between the chain's count and ours that no intent has: a no-op must fill it, or nothing after it is mined.
    """
    first_free = max(latest, owned)
    in_flight, done = set(live), set(ended)
    gone = [nonce for nonce in range(latest, first_free) if nonce not in in_flight]
    return Reconciled(
        next_nonce=first_free,
        holes=tuple(nonce for nonce in gone if nonce not in done),
        reopened=tuple(nonce for nonce in gone if nonce in done),
    )


def drift(before: int | None, after: Reconciled) -> str | None:
    """Return a sentence for the log when something had to be repaired."""
    parts = []
    if before is not None and before != after.next_nonce:
        parts.append(f"the next nonce was {before} and is {after.next_nonce}")
    if after.holes:
        parts.append(f"{len(after.holes)} unused from {after.holes[0]}")
    if after.reopened:
        parts.append(f"{len(after.reopened)} undone from {after.reopened[0]}")
    return "; ".join(parts) or None


class NonceRepair:
    """The repair of one lane's nonces: go on after what others used, fill what no intent owns with no-ops."""

    def __init__(self, parts: LaneParts) -> None:
        self._feed, self._store, self._transactions, self._sender, self._signer, self._policy = parts
        self._address = parts.store.lease.signer.label
        self._wanted_since: float | None = None

    async def repair(self, latest: int, *, begins: bool = False) -> bool:
        """Make the lane's nonces agree with the chain's: go on after foreign ones, fill what no intent owns. False
        when something seems to be wrong and is not yet certain: a count of one node at one moment moves nothing.

        `begins`: the lane is compared for the first time, so what its key was used for before counts as no other's."""
        async with self._transactions.writing:
            if self._in_order(latest):
                self._wanted_since = None
                return True
            agreed = await self._agreed_count()
            if agreed is None or not await self._believed(agreed):
                return agreed is not None and self._in_order(agreed)
            is_repaired = await self._repair(agreed, begins)
            if is_repaired:
                self._wanted_since = None
            return is_repaired

    def _in_order(self, latest: int) -> bool:
        """Return whether every nonce the chain has not used is an intent's."""
        waiting = sum(1 for nonce in self._transactions.unmined if nonce >= latest)
        if latest <= self._transactions.next_nonce and waiting == self._transactions.next_nonce - latest:
            return True
        # Or the node's count lags behind receipts it gave.
        return latest <= self._transactions.next_nonce and self._nonces_of_rows().issuperset(
            range(latest, self._transactions.next_nonce)
        )

    def _nonces_of_rows(self) -> set[int]:
        return {
            *self._transactions.unmined,
            *(transaction.nonce for transactions in self._transactions.mined.values() for transaction in transactions),
        }

    async def _agreed_count(self) -> int | None:
        """Return the key's count at our head, when every node that can say says the same."""
        head, said = self._feed.head.number, set()
        for client in self._feed.nodes:
            try:
                said.add(await client.eth.get_transaction_count(checksum(self._address), head))
            except RpcError:
                continue  # it is down, or has not seen this block
        return said.pop() if len(said) == 1 else None

    async def _believed(self, latest: int) -> bool:
        """Return whether to repair, as the count asks: when the transaction before it is found, or after a while."""
        if self._in_order(latest):
            self._wanted_since = None
            return False
        now = asyncio.get_running_loop().time()
        if self._wanted_since is None:
            self._wanted_since = now
        if now - self._wanted_since >= self._policy.patience.believe_after_seconds:
            return True
        if latest <= self._transactions.next_nonce:
            return False
        return (
            await find_transaction_by_nonce(self._feed.client, self._address, latest - 1, self._feed.head.number)
            is not None
        )

    async def _repair(self, latest: int, begins: bool) -> bool:
        ended = await self._store.ended_from(latest)
        if ended:
            landed = await receipts_of(self._feed.client, ended)
            for node in self._feed.nodes[1:]:
                landed |= await receipts_if_any(node, ended)
            if landed:
                return False  # the count lags behind receipts there are
        reconciled = reconcile(
            latest=latest,
            owned=self._transactions.next_nonce,
            live=self._nonces_of_rows(),
            ended=[transaction.nonce for transaction in ended],
        )
        fillers = await self._noops(reconciled)
        if not fillers and not ended and reconciled.next_nonce == self._transactions.next_nonce:
            return True
        said = drift(None if begins else self._transactions.next_nonce, reconciled)
        if said is not None:
            log.warning(said, action="relayer.nonces_repaired", **self._transactions.where)
        if latest > self._transactions.next_nonce and not begins:
            metrics.FOREIGN.labels(**self._transactions.where).inc(latest - self._transactions.next_nonce)
        if ended:
            await self._store.mark_dropped(ended)
            for transaction in ended:
                self._transactions.reopened(transaction)
            self._sender.push(ended)
        transactions = await self._store.fill_holes(fillers, reconciled.next_nonce)
        self._transactions.next_nonce = reconciled.next_nonce
        self._transactions.load(transactions)
        metrics.HOLES.labels(**self._transactions.where).inc(len(transactions))
        self._sender.push(transactions)
        return True

    async def _noops(self, reconciled: Reconciled) -> list[Signed]:
        """Sign no-ops for the holes, as many as the hour's gas still pays for and the signer signs now; the rest comes
        later."""
        market = self._feed.market
        fees = quote(self._policy.fees, market)
        if fees is None or not reconciled.holes:
            return []
        left = (
            self._policy.gas_per_hour_wei - self._transactions.spent_wei - self._transactions.expected_gas_wei(market)
        )
        paid = max(0, left) // max(1, self._signer.noop_gas * expected_price(fees, market))
        if paid < len(reconciled.holes):
            log.warning(
                "the hour's gas does not pay for every nonce to be filled",
                action="relayer.noops_over_allowance",
                **self._transactions.where,
                holes=len(reconciled.holes),
                paid=paid,
            )
        return await self._signer.sign(
            [self._signer.noop(nonce, fees) for nonce in reconciled.holes[: min(paid, REPLACEMENTS)]]
        )
