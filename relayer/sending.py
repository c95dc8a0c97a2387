"""Offering stored bytes to a node, in nonce order, and writing down that they were offered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from core.chain import ChainClient, RpcError, RpcErrorKind
from core.log import get_logger
from core.outbox.states import IntentState
from relayer import metrics
from relayer.in_flight import LaneTransactions
from relayer.leases import Lease
from relayer.policy import LanePolicy
from relayer.store import LaneStore
from relayer.transaction import Attempt, LaneTransaction

log = get_logger(__name__)

# After a batch none of which a node took.
PAUSE_SECONDS = 0.5


class LaneSender:
    """One lane's line to the node. `push` what is stored; `run` sends it. Offering the same bytes twice is harmless."""

    def __init__(
        self, lease: Lease, client: ChainClient, store: LaneStore, transactions: LaneTransactions, policy: LanePolicy
    ) -> None:
        self.out_of_funds: str | None = None
        self._lease = lease
        self._client = client
        self._store = store
        self._transactions = transactions
        self._policy = policy
        self._waiting: dict[int, LaneTransaction] = {}
        self._pushed = asyncio.Event()
        self._offered: list[LaneTransaction] = []
        self._marking = asyncio.Event()

    def push(self, transactions: Iterable[LaneTransaction]) -> None:
        for transaction in transactions:
            self._waiting[transaction.nonce] = transaction
        self._pushed.set()

    def waits(self, transaction: LaneTransaction) -> bool:
        """True while this transaction is still to be offered."""
        return transaction.nonce in self._waiting

    async def run(self) -> None:
        while True:
            if not self._waiting:
                self._pushed.clear()
                await self._pushed.wait()
            nonces = sorted(self._waiting)[: self._policy.rpc_batch_size]
            transactions = [self._waiting.pop(nonce) for nonce in nonces]
            await self._send([each for each in transactions if each.state.in_flight])

    async def mark(self) -> None:
        """Writes down what was offered, as much as there is at a time."""
        while True:
            await self._marking.wait()
            self._marking.clear()
            transactions, self._offered = self._offered, []
            transactions = [each for each in transactions if each.state is IntentState.SIGNED]
            if not transactions:
                continue
            async with self._transactions.writing:
                moved = await self._store.mark_sent([each for each in transactions if each.state is IntentState.SIGNED])
                for transaction in transactions:
                    if transaction.intent_id in moved and transaction.state is IntentState.SIGNED:
                        self._transactions.sent(transaction)

    async def _send(self, transactions: list[LaneTransaction]) -> None:
        if not transactions:
            return
        self._lease.check()
        fresh = [each for each in transactions if each.last_sent_at is None]
        again = [each for each in transactions if each.last_sent_at is not None]
        failed = await self._offer(fresh, self._client.send_raw_batch)
        # Whoever took the bytes that were offered before has not had them mined, and may have lost them.
        failed += await self._offer(again, self._client.send_raw_everywhere)
        if self._offered:
            self._marking.set()
        if failed == len(transactions):
            await asyncio.sleep(PAUSE_SECONDS)

    async def _offer(
        self,
        transactions: list[LaneTransaction],
        send: Callable[[Sequence[bytes]], Awaitable[list[str | RpcError]]],
    ) -> int:
        """How many did not get as far as a pool or the chain."""
        if not transactions:
            return 0
        attempts = [each.newest for each in transactions]
        now = asyncio.get_running_loop().time()
        for transaction in transactions:
            transaction.last_sent_at = now
        judged = zip(transactions, attempts, await send([each.raw for each in attempts]), strict=True)
        return sum(self._judge(transaction, attempt, answer) for transaction, attempt, answer in judged)

    def _judge(self, transaction: LaneTransaction, attempt: Attempt, answer: str | RpcError) -> bool:
        """Notes what the node's answer means; True when it did not get as far as the node's pool or chain."""
        transaction.unfunded = isinstance(answer, RpcError) and answer.kind is RpcErrorKind.INSUFFICIENT_FUNDS
        if isinstance(answer, str):
            metrics.SENDS.labels(self._transactions.chain, "accepted").inc()
            self.out_of_funds = None
            self._offered.append(transaction)
            return False
        metrics.SENDS.labels(self._transactions.chain, answer.kind.value).inc()
        match answer.kind:
            case RpcErrorKind.ALREADY_KNOWN | RpcErrorKind.REPLACEMENT_UNDERPRICED:
                # The pool has these bytes, or others with this nonce: what lands is seen by its receipt.
                self._offered.append(transaction)
                return False
            case RpcErrorKind.NONCE_TOO_LOW:
                return False  # used: the receipts say by whom
            case RpcErrorKind.INSUFFICIENT_FUNDS:
                self.out_of_funds = answer.message
            case RpcErrorKind.TX_INVALID | RpcErrorKind.GAS_LIMIT | RpcErrorKind.REVERTED:
                # This node will never take it. Another may have: so the nonce is taken by a no-op, and whichever of the
                # two is mined decides.
                if not attempt.is_cancel and transaction.doomed is None:
                    transaction.doomed = (answer.kind.value, answer.message)
            case _:
                if answer.maybe_delivered:
                    self._offered.append(transaction)
        log.warning(
            answer.message,
            action="relayer.not_accepted",
            chain=self._transactions.chain,
            nonce=transaction.nonce,
            intent=transaction.intent_id,
            kind=answer.kind.value,
        )
        return True
