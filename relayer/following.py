"""From sent to final: receipts, reorgs, nonces taken by foreign transactions, and finality."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from core.chain import ChainClient, Receipt, RpcError, RpcErrorKind, values
from core.chain.contract import explain
from core.chain.wire import Data, quantity
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger
from core.outbox import EXPIRED, OVERTAKEN, MinedOutcome, settled_state
from relayer import metrics
from relayer.nonces import (
    NonceRepair,
    find_transaction_by_nonce,
    match_receipts,
    receipts_of,
    receipts_of_any,
    receipts_of_blocks,
)
from relayer.sending import LaneParts, Replacer
from relayer.signing import Signed
from relayer.transactions import LaneTransaction, Mined, is_nonce_taken

log = get_logger(__name__)

POLL_SECONDS = 1.0
IDLE_SECONDS = 60.0
# Rows in one database transaction.
ROWS = 500
# Searches for the transaction that took a nonce in one poll; each costs about ten requests.
SEARCHES = 10


class Follower:
    """The second half of a lane: at every new head it reads the state of its transactions on the chain."""

    def __init__(self, parts: LaneParts, nonces: NonceRepair, replacer: Replacer) -> None:
        self._feed, self._store, self._transactions, self._sender, _, self._policy = parts
        self._client: ChainClient = parts.feed.client
        self._nonces = nonces
        self._replacer = replacer
        self._address = parts.store.lease.signer.label
        self._reorgs = parts.feed.reorgs
        self._in_order_at: float | None = None

    async def run(self) -> None:
        sequence = -1
        while True:
            await self._feed.wait(sequence, POLL_SECONDS)
            sequence = self._feed.sequence
            if self._feed.down_since is None:
                try:
                    await self.poll_once()
                except RpcError as error:
                    where = self._transactions.where
                    log.warning(error.message, action="relayer.follow_failed", **where, kind=error.kind.value)

    async def poll_once(self) -> None:
        await self._undo_reorged()
        if self._is_idle:
            self._replacer.reset()
            await self._end_final()
            return
        self._in_order_at = None
        latest, pending = await self._counts()
        await self._take_receipts(latest)
        await self._end_final()
        is_in_order = await self._nonces.repair(latest)
        await self._replacer.replace_stuck(latest, pending)
        if is_in_order:
            self._in_order_at = asyncio.get_running_loop().time()

    @property
    def _is_idle(self) -> bool:
        """Return whether the lane has no work: nothing is in flight, and the node's counts were read recently and need
        no repair. New counts would only reveal that the key was used elsewhere, and that can wait."""
        if self._transactions.unmined or self._in_order_at is None:
            return False
        return asyncio.get_running_loop().time() - self._in_order_at < IDLE_SECONDS

    async def _counts(self) -> tuple[int, int]:
        """Return how many of the key's transactions are mined, and how many are mined or in the node's pool. The second
        count is read only while something is in flight."""
        tags = ("latest", "pending") if self._transactions.unmined else ("latest",)
        answers: list[Any] = await self._client.provider.batch(
            [("eth_getTransactionCount", [self._address, tag]) for tag in tags]
        )
        counts = list(map(quantity, values(answers)))
        return counts[0], max(counts)

    async def _undo_reorged(self) -> None:
        """Put mined transactions back in flight if their blocks are no longer canonical. Each block is checked once,
        and again after every reorg."""
        missed = self._feed.reorgs != self._reorgs
        if missed:
            self._transactions.verified.clear()
            self._reorgs, self._in_order_at = self._feed.reorgs, None
        # A block above the head is one whose receipt arrived before the head did.
        compared = [
            key
            for key in self._transactions.mined
            if key not in self._transactions.verified and (missed or key[0] <= self._feed.head.number)
        ]
        hashes = await self._feed.hashes_of({number for number, _ in compared})
        for key in compared:
            number, block_hash = key
            canonical = hashes[number]
            if canonical == hex_of(block_hash):
                self._transactions.verified.add(key)
                continue
            if canonical is None and number <= self._feed.head.number:
                continue  # this node is behind: a block it does not have yet was not undone
            async with self._transactions.writing:
                await self._store.mark_dropped(self._transactions.mined[key])
                transactions = self._transactions.undo_block(key)
            message = f"a reorg undid {len(transactions)} mined transactions; sending them again"
            log.warning(message, action="relayer.dropped", **self._transactions.where, block=number)
            self._sender.push(transactions)

    async def _take_receipts(self, latest: int) -> None:
        """Record the transactions that have receipts as mined. An intent without a receipt is queued again if a foreign
        transaction took its nonce."""
        used = [transaction for nonce, transaction in self._transactions.unmined.items() if nonce < latest]
        of_blocks = await receipts_of_blocks(self._client, used)
        for start in range(0, len(used), ROWS):
            part = used[start : start + ROWS]
            receipts = match_receipts(part, of_blocks)
            receipts |= await receipts_of(self._client, [each for each in part if each.nonce not in receipts])
            late = [each for each in part if each.nonce not in receipts and each.used_since is not None]
            receipts |= await receipts_of_any(self._feed.nodes[1:], late)
            mined = [await self._mined(each, *receipts[each.nonce]) for each in part if each.nonce in receipts]
            if mined:
                async with self._transactions.writing:
                    moved = await self._store.mark_mined(mined)
                    if len(moved) != len(mined):
                        raise RuntimeError("the rows in flight differ from those in memory")
                    for each in mined:
                        self._record_mined(each)
            await self._requeue_taken([each for each in part if each.nonce not in receipts])
        unproven = [each for each in used if each.state.in_flight and each.searched_at is not None]
        metrics.UNPROVEN.labels(**self._transactions.where).set(
            sum(1 for each in unproven if each.rival is None and not each.landed)
        )

    async def _mined(self, transaction: LaneTransaction, attempt: Signed, receipt: Receipt) -> Mined:
        outcome, code, reason = MinedOutcome.SUCCEEDED, None, None
        if attempt.is_cancel:
            outcome = MinedOutcome.CANCELLED
            code, reason = transaction.doomed or (EXPIRED, "It was not mined in time, so a no-op took its nonce.")
        elif not receipt.succeeded:
            outcome = MinedOutcome.REVERTED
            code, reason = await self._revert_reason(transaction, attempt, receipt)
        block = receipt.block_number, bytes_of(receipt.block_hash)
        return Mined(transaction, attempt.hash, outcome, code, reason, *block, receipt.gas_used, receipt.fee_wei)

    async def _revert_reason(self, transaction: LaneTransaction, attempt: Signed, receipt: Receipt) -> tuple[str, str]:
        """Return why a mined transaction reverted, as (code, sentence), by repeating its call on the block before its
        own, then on its own block."""
        if receipt.gas_used >= attempt.gas_limit:
            return "out_of_gas", f"It ran out of gas at its limit of {attempt.gas_limit}."
        call = {"from": self._address, "to": hex_of(transaction.call.to), "data": hex_of(transaction.call.data)}
        call |= {"value": hex(transaction.call.value_wei), "gas": hex(attempt.gas_limit)}
        why = "It reverted when it was mined, but succeeds when simulated."
        for number in (receipt.block_number - 1, receipt.block_number):
            try:
                await self._client.provider.call("eth_call", [call, hex(number)], Data)
            except RpcError as error:
                if error.kind is RpcErrorKind.REVERTED:
                    reason = explain(error, self._policy.errors)
                    return reason.name or "reverted", reason.message
                why = "It reverted when it was mined, and no node gave a reason."
        return OVERTAKEN, why

    def _record_mined(self, mined: Mined) -> None:
        transaction = mined.transaction
        transaction.outcome = mined.outcome
        transaction.block_number, transaction.block_hash = mined.block_number, mined.block_hash
        transaction.used_since = transaction.searched_at = transaction.rival = None
        self._transactions.mark_mined(transaction, mined.fee_wei)
        if mined.outcome is not MinedOutcome.SUCCEEDED:
            where = {**self._transactions.where, "intent": transaction.intent_id, "tx": hex_of(mined.tx_hash)}
            log.warning(mined.reason or "", action=f"relayer.{mined.outcome.value}", **where, code=mined.code)

    async def _requeue_taken(self, transactions: Sequence[LaneTransaction]) -> None:
        """Queue intents again if a foreign transaction took their nonce. That transaction must be known, and deep
        enough in the chain."""
        now, patience = asyncio.get_running_loop().time(), self._policy.patience
        for transaction in transactions:
            if transaction.used_since is None:
                transaction.used_since = now
        await self._find_rivals(
            [each for each in transactions if now - (each.used_since or now) >= patience.doubt_after_seconds]
        )
        head, depth = self._feed.head.number, self._feed.finality_blocks
        taken = [
            each
            for each in transactions
            if is_nonce_taken(each, head=head, finality_blocks=depth, now=now, patience=patience)
        ]
        if not taken:
            return
        async with self._transactions.writing:
            await self._store.requeue(taken)
            for transaction in taken:
                self._transactions.requeue(transaction)
        metrics.FOREIGN.labels(**self._transactions.where).inc(len(taken))
        nonces = {each.nonce: hex_of(each.rival.tx_hash) for each in taken[:20] if each.rival}
        message = "other transactions took the lane key's nonces; requeueing the displaced intents"
        log.warning(message, action="relayer.nonce_taken", **self._transactions.where, nonces=nonces)

    async def _find_rivals(self, transactions: Sequence[LaneTransaction]) -> None:
        """Find the foreign transactions with these nonces. Forget foreign transactions found earlier if their blocks
        were undone."""
        now = asyncio.get_running_loop().time()
        hashes = await self._feed.hashes_of(
            {each.rival.block_number for each in transactions if each.rival is not None}
        )
        for transaction in transactions:
            if transaction.rival is not None:
                canonical = hashes.get(transaction.rival.block_number)
                if canonical is not None and canonical != hex_of(transaction.rival.block_hash):
                    transaction.rival = transaction.searched_at = transaction.used_since = None
        again = self._policy.patience.resend_after_seconds
        due = [
            each
            for each in transactions
            if each.rival is None and (each.searched_at is None or now - each.searched_at >= again)
        ]
        for transaction in due[:SEARCHES]:
            transaction.searched_at = now
            rival = await find_transaction_by_nonce(
                self._client, self._address, transaction.nonce, self._feed.head.number
            )
            transaction.landed = rival is not None and rival.tx_hash in {each.hash for each in transaction.attempts}
            transaction.rival = None if transaction.landed else rival

    async def _end_final(self) -> None:
        """End the transactions whose blocks are final."""
        deep = self._feed.head.number - self._feed.finality_blocks
        keys = [key for key in self._transactions.mined if key[0] <= deep and key in self._transactions.verified]
        for key in keys:
            ends = []
            for transaction in self._transactions.mined[key]:
                assert transaction.outcome is not None
                ends.append((transaction, settled_state(transaction.outcome)))
            async with self._transactions.writing:
                await self._store.mark_ended(ends)
                self._transactions.end_block(key, ends)
