"""From signed to mined: offer stored bytes to the nodes in nonce order, and replace what is stuck."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from core.chain import ChainClient, RpcError, RpcErrorKind
from core.log import get_logger
from core.outbox import IntentState
from relayer import metrics
from relayer.feed import ChainFeed
from relayer.leases import Lease
from relayer.policy import LanePolicy, bump, highest_fees
from relayer.signing import Fees, Signed, SignerUnavailable, Unsigned
from relayer.store import LaneStore
from relayer.transactions import LaneTransaction, LaneTransactions, NextStep, QueueProgress, next_step

log = get_logger(__name__)

# The pause after a batch of which no node took anything.
PAUSE_SECONDS = 0.5


class LaneSender:
    """The sender of one lane's stored transactions. Sending bytes twice is harmless."""

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

    def is_waiting(self, transaction: LaneTransaction) -> bool:
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
        """Run forever, recording transactions as sent. Each write covers all transactions that are waiting to be
        recorded."""
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
                        self._transactions.mark_sent(transaction)

    async def _send(self, transactions: list[LaneTransaction]) -> None:
        if not transactions:
            return
        self._lease.check()
        fresh = [each for each in transactions if each.last_sent_at is None]
        again = [each for each in transactions if each.last_sent_at is not None]
        failed = await self._offer(fresh, self._client.provider.send_raw_batch)
        # The nodes that accepted these bytes before may have lost them: offer them to every node.
        failed += await self._offer(again, self._client.provider.send_raw_everywhere)
        if self._offered:
            self._marking.set()
        if failed == len(transactions):
            await asyncio.sleep(PAUSE_SECONDS)

    async def _offer(
        self,
        transactions: list[LaneTransaction],
        send: Callable[[Sequence[bytes]], Awaitable[list[str | RpcError]]],
    ) -> int:
        """Send the newest bytes of each transaction; return how many did not reach a pool or the chain."""
        if not transactions:
            return 0
        attempts = [each.newest for each in transactions]
        now = asyncio.get_running_loop().time()
        for transaction in transactions:
            transaction.last_sent_at = now
        judged = zip(transactions, attempts, await send([each.raw for each in attempts]), strict=True)
        return sum(self._judge(transaction, attempt, answer) for transaction, attempt, answer in judged)

    def _judge(self, transaction: LaneTransaction, attempt: Signed, answer: str | RpcError) -> bool:
        """Act on a node's response; return True if the bytes did not reach the node's pool or the chain."""
        transaction.unfunded = isinstance(answer, RpcError) and answer.kind is RpcErrorKind.INSUFFICIENT_FUNDS
        if isinstance(answer, str):
            self.out_of_funds = None
            self._offered.append(transaction)
            return False
        match answer.kind:
            case RpcErrorKind.ALREADY_KNOWN | RpcErrorKind.REPLACEMENT_UNDERPRICED:
                # The pool has these bytes, or others with this nonce; the receipt will show which one landed.
                self._offered.append(transaction)
                return False
            case RpcErrorKind.NONCE_TOO_LOW:
                return False  # the receipts will show which transaction used the nonce
            case RpcErrorKind.INSUFFICIENT_FUNDS:
                self.out_of_funds = answer.message
            case RpcErrorKind.TX_INVALID | RpcErrorKind.GAS_LIMIT | RpcErrorKind.REVERTED:
                # This node will never take it, but another may have. So a no-op takes its nonce, and whichever of the
                # two is mined decides.
                if not attempt.is_cancel and transaction.doomed is None:
                    transaction.doomed = (answer.kind.value, answer.message)
            case _:
                if answer.maybe_delivered:
                    self._offered.append(transaction)
        where = {**self._transactions.where, "intent": transaction.intent_id}
        log.warning(answer.message, action="relayer.not_accepted", **where, kind=answer.kind.value)
        return True


# The most that are signed at once.
REPLACEMENTS = 200


class LaneSigner:
    """A lane's key. `noop_gas` is the gas limit of a no-op, which is an empty transfer to ourselves."""

    def __init__(self, lease: Lease, noop_gas: int, where: Mapping[str, str]) -> None:
        self.chain_id = lease.chain_id
        self.noop_gas = noop_gas
        self._signer = lease.signer
        self._where = where

    def noop(self, nonce: int, fees: Fees) -> Unsigned:
        return Unsigned(self.chain_id, nonce, fees, self.noop_gas, self._signer.address, value_wei=0, data=b"")

    async def sign(self, unsigned: Sequence[Unsigned]) -> list[Signed]:
        """Sign the first of these transactions: at most REPLACEMENTS, and at most as many as the key signs at once.
        Return an empty list if the signer is unavailable."""
        try:
            return await self._signer.sign_all(unsigned[: min(REPLACEMENTS, self._signer.at_once or REPLACEMENTS)])
        except SignerUnavailable as error:
            log.warning(error.message, action="relayer.not_signed", **self._where)
            return []


class LaneParts(NamedTuple):
    """The parts of one lane, rebuilt together when the lane restarts."""

    feed: ChainFeed
    store: LaneStore
    transactions: LaneTransactions
    sender: LaneSender
    signer: LaneSigner
    policy: LanePolicy


class Replacer:
    """Replaces one lane's stuck transactions. It remembers when the key's count of mined transactions last changed."""

    def __init__(self, parts: LaneParts) -> None:
        self._feed, self._store, self._transactions, self._sender, self._signer, self._policy = parts
        self._moved_at: tuple[float, int] | None = None
        self._latest = -1

    def reset(self) -> None:
        """Restart the clock, because nothing is in flight."""
        self._moved_at = None

    async def replace_stuck(self, latest: int, pending: int) -> None:
        """Bump, cancel or resend each transaction that the chain has not mined, as `next_step` says."""
        progress, patience = self._progress(latest, pending), self._policy.patience
        unmined = [
            transaction
            for nonce, transaction in sorted(self._transactions.unmined.items())
            if nonce >= latest and not self._sender.is_waiting(transaction)
        ]
        replacements: list[tuple[LaneTransaction, Unsigned, bool]] = []
        for transaction in unmined:
            step = next_step(transaction, progress, patience)
            if step in (NextStep.BUMP, NextStep.CANCEL) and len(replacements) < REPLACEMENTS:
                cancel = step is NextStep.CANCEL or transaction.cancelling
                replacement = self._replacement(transaction, cancel=cancel)
                if replacement is not None:
                    replacements.append((transaction, replacement, cancel))
        if replacements:
            await self._replace(replacements, progress.now)
        # If the cap forbids a replacement, or the signer did not sign it, the present bytes are still offered.
        again = [
            transaction
            for transaction in unmined
            if not self._sender.is_waiting(transaction)
            and next_step(transaction, progress, patience, may_bump=False) is NextStep.RESEND
        ]
        if again:
            metrics.RESENDS.labels(**self._transactions.where).inc(len(again))
            self._sender.push(again)

    def _progress(self, latest: int, pending: int) -> QueueProgress:
        now, head = asyncio.get_running_loop().time(), self._feed.head
        if latest != self._latest or not self._transactions.unmined or self._moved_at is None:
            self._moved_at = (now, head.number)
        self._latest = latest
        since, height = self._moved_at
        return QueueProgress(
            latest, pending, now, head.timestamp, now - since, head.number - height, market=self._feed.market
        )

    def _replacement(self, transaction: LaneTransaction, *, cancel: bool) -> Unsigned | None:
        """Return a transaction with the same nonce at higher fees, or None if they would exceed the cap. A first no-op
        is always returned: nodes that lost or refused the old bytes may accept it without higher fees."""
        policy, old = self._policy.fees, transaction.newest.fees
        fees = bump(policy, self._feed.market, old)
        if cancel and not transaction.cancelling:
            fees = fees or highest_fees(policy, old)
        if fees is None:
            return None
        if cancel:
            return self._signer.noop(transaction.nonce, fees)
        return transaction.call.unsigned(self._signer.chain_id, transaction.nonce, fees, transaction.newest.gas_limit)

    async def _replace(self, replacements: Sequence[tuple[LaneTransaction, Unsigned, bool]], now: float) -> None:
        signed = await self._signer.sign([unsigned for _, unsigned, _ in replacements])
        async with self._transactions.writing:
            # Signing may have taken long: leave alone what is no longer in flight, or no longer has this nonce.
            replaced = [
                (transaction, replace(each, is_cancel=cancel))
                for (transaction, _, cancel), each in zip(replacements, signed, strict=False)
                if transaction.state.in_flight and self._transactions.unmined.get(each.nonce) is transaction
            ]
            if not replaced:
                return
            await self._store.add_attempts(replaced)
            for transaction, attempt in replaced:
                transaction.attempts.append(attempt)
                transaction.replaced_at = now
        for transaction, attempt in replaced:
            (metrics.CANCELS if attempt.is_cancel else metrics.BUMPS).labels(**self._transactions.where).inc()
            message = "cancelling a transaction" if attempt.is_cancel else "raising a transaction's fees"
            where = {**self._transactions.where, "intent": transaction.intent_id}
            log.info(message, action="relayer.replaced", **where, max_fee_wei=attempt.fees.max_fee_wei)
        self._sender.push([transaction for transaction, _ in replaced])
