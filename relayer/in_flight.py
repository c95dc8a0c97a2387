"""Everything a lane has on its way, in memory: what its holder works with, while the rows are what survives it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence

from core.outbox.states import TRANSITIONS, IntentState, MinedOutcome
from relayer import metrics
from relayer.fees import FeeMarket, expected_price
from relayer.payers import PayerBook, PayerKind, PayerRecord
from relayer.transaction import LaneTransaction

# A block by height and hash.
BlockKey = tuple[int, bytes]


class LaneTransactions:
    """What a lane has on its way, and what it has spent.

    unmined: by nonce. mined: by block, until final. verified: the blocks found standing since the last reorg.
    spent_wei: on gas in the last hour; burnt_wei: the part of it that went to what reverted, by whose it was. Both are
    read from the rows now and then, and raised by every receipt in between.

    `writing` is held around every database write of the lane together with the change here that mirrors it.
    """

    def __init__(self, chain: str, lane: str, next_nonce: int) -> None:
        self.chain = chain
        self.lane = lane
        self.next_nonce = next_nonce
        self.unmined: dict[int, LaneTransaction] = {}
        self.mined: dict[BlockKey, list[LaneTransaction]] = {}
        self.verified: set[BlockKey] = set()
        self.spent_wei = 0
        self.burnt_wei = dict.fromkeys(PayerKind, 0)
        self.writing = asyncio.Lock()
        self.landed = asyncio.Event()

    def load(self, transactions: Iterable[LaneTransaction]) -> None:
        """Transactions as the rows have them."""
        for transaction in transactions:
            if transaction.state is IntentState.MINED:
                self._file_mined(transaction)
            else:
                self.unmined[transaction.nonce] = transaction
        self._show()

    def signed(self, transactions: Sequence[LaneTransaction], waited_seconds: Sequence[float]) -> None:
        """Freshly signed ones, with how long each was queued."""
        for transaction, waited in zip(transactions, waited_seconds, strict=True):
            self.unmined[transaction.nonce] = transaction
            self.next_nonce = max(self.next_nonce, transaction.nonce + 1)
            self._measure(transaction.kind, IntentState.QUEUED, IntentState.SIGNED, waited)
        self._show()

    def refused(self, kind: str, waited_seconds: float) -> None:
        self._measure(kind, IntentState.QUEUED, IntentState.FAILED, waited_seconds)

    def sent(self, transaction: LaneTransaction) -> None:
        self._move(transaction, IntentState.SENT)

    def landed_in(self, transaction: LaneTransaction, fee_wei: int) -> None:
        """Mined: its outcome and block are set."""
        self.spent_wei += fee_wei
        if transaction.outcome is MinedOutcome.REVERTED:
            self.burnt_wei[transaction.payer_kind] += fee_wei
        self._move(transaction, IntentState.MINED)
        self.unmined.pop(transaction.nonce, None)
        self._file_mined(transaction)
        self.landed.set()
        self._show()

    def dropped(self, key: BlockKey) -> list[LaneTransaction]:
        """A reorg undid this block: its transactions are on their way again, to be sent at once."""
        transactions = self.mined.pop(key, [])
        self.verified.discard(key)
        for transaction in transactions:
            self.reopened(transaction)
        return transactions

    def reopened(self, transaction: LaneTransaction) -> None:
        self._move(transaction, IntentState.SENT)
        transaction.outcome = transaction.block_number = transaction.block_hash = None
        transaction.last_sent_at = transaction.used_since = transaction.asked_at = transaction.taker = None
        self.unmined[transaction.nonce] = transaction
        self._show()

    def requeued(self, transaction: LaneTransaction) -> None:
        self._move(transaction, IntentState.QUEUED)
        self.unmined.pop(transaction.nonce, None)
        self.landed.set()
        self._show()

    def ended(self, key: BlockKey, ends: Iterable[tuple[LaneTransaction, IntentState]]) -> None:
        for transaction, state in ends:
            self._move(transaction, state)
        self.mined.pop(key, None)
        self.verified.discard(key)

    def worst_cost_wei(self) -> int:
        """What everything unmined could cost at most, value included: what the key's balance must cover."""
        return sum(
            each.newest.gas_limit * each.newest.fees.max_fee_wei + (0 if each.cancelling else each.value_wei)
            for each in self.unmined.values()
        )

    def expected_gas_wei(self, market: FeeMarket, kinds: Collection[PayerKind] = tuple(PayerKind)) -> int:
        """What gas for everything unmined, or for some kinds of it, will probably cost, were all of each limit used."""
        return sum(
            each.newest.gas_limit * expected_price(each.newest.fees, market)
            for each in self.unmined.values()
            if each.payer_kind in kinds
        )

    def payer_book(
        self, wallets: dict[bytes, PayerRecord], codes: dict[bytes, PayerRecord], market: FeeMarket, allowance_wei: int
    ) -> PayerBook:
        """These records, with what this lane's own gas went to, and may go to yet."""
        unmined_wei = self.expected_gas_wei(market, (PayerKind.CONTRACT,))
        return PayerBook(wallets, codes, self.burnt_wei[PayerKind.CONTRACT], unmined_wei, allowance_wei)

    def _file_mined(self, transaction: LaneTransaction) -> None:
        assert transaction.block_number is not None
        assert transaction.block_hash is not None
        self.mined.setdefault((transaction.block_number, transaction.block_hash), []).append(transaction)

    def _move(self, transaction: LaneTransaction, state: IntentState) -> None:
        assert (transaction.state, state) in TRANSITIONS, f"{transaction.state} -> {state}"
        now = time.monotonic()
        self._measure(transaction.kind, transaction.state, state, now - transaction.state_since)
        transaction.state, transaction.state_since = state, now

    def _measure(self, kind: str, before: IntentState, after: IntentState, seconds: float) -> None:
        metrics.CHANGES.labels(self.chain, self.lane, kind, before.value, after.value).inc()
        metrics.STATE_SECONDS.labels(self.chain, before.value, after.value).observe(max(0.0, seconds))

    def _show(self) -> None:
        metrics.IN_FLIGHT.labels(self.chain, self.lane).set(len(self.unmined))
        metrics.NEXT_NONCE.labels(self.chain, self.lane).set(self.next_nonce)
