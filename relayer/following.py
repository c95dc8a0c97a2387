"""From sent to final: receipts, reorgs, finality, and whatever is stuck, lost or taken on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from core.chain import ChainClient, Receipt, RpcError, RpcErrorKind, checksum, values
from core.chain.reverts import explain
from core.chain.wire import Data, quantity
from core.log import get_logger
from core.outbox.states import EXPIRED, OVERTAKEN, MinedOutcome, settled_state
from relayer import measures
from relayer.feed import ChainFeed
from relayer.fees import bump, expected_price, quote
from relayer.lane_transactions import LaneTransactions
from relayer.nonces import Reconciled, drift, reconcile
from relayer.policy import LanePolicy
from relayer.rows import Mined, attempt_of
from relayer.sending import LaneSender
from relayer.signing import Fees, Signed, SignerUnavailable, Unsigned
from relayer.store import LaneStore
from relayer.takers import find_taker
from relayer.transaction import Attempt, LaneQueue, LaneTransaction, NextStep, next_step, nonce_was_taken

log = get_logger(__name__)

LOOK_AGAIN_SECONDS = 1.0
AT_REST_SECONDS = 5.0
# Rows in one database transaction, and replacements signed at one look.
ROWS = 500
REPLACEMENTS = 200
# So many transactions of ours in a block, and its receipts are asked for together: a node reads the whole block for
# each of them alone.
MANY_IN_A_BLOCK = 64
# Takers of nonces looked for at one look; each costs about ten questions.
SEARCHES = 10

T = TypeVar("T")


class Follower:
    """One lane's watch over what it sent. `noop_gas`: what a transfer of nothing to ourselves needs on this chain."""

    def __init__(
        self,
        feed: ChainFeed,
        store: LaneStore,
        transactions: LaneTransactions,
        sender: LaneSender,
        *,
        policy: LanePolicy,
        noop_gas: int,
    ) -> None:
        self._feed = feed
        self._client: ChainClient = feed.client
        self._store = store
        self._transactions = transactions
        self._sender = sender
        self._policy = policy
        self._noop_gas = noop_gas
        self._address = store.lease.signer.label
        self._reorgs = feed.reorgs
        self._moved_at: tuple[float, int] | None = None
        self._latest = -1
        self._repair_wanted_since: float | None = None
        self._in_order_at: float | None = None

    async def run(self) -> None:
        sequence = -1
        while True:
            await self._feed.wait(sequence, LOOK_AGAIN_SECONDS)
            sequence = self._feed.sequence
            if self._feed.down_since is None:
                try:
                    await self.look()
                except RpcError as error:
                    log.warning(
                        error.message,
                        action="relayer.look_failed",
                        chain=self._transactions.chain,
                        kind=error.kind.value,
                    )

    async def look(self) -> None:
        """One look at the chain, and everything that follows from it."""
        await self._undo_reorged()
        if self._is_at_rest:
            self._moved_at = None
            await self._end_final()
            return
        self._in_order_at = None
        latest, pending = await self.counts()
        await self._take_receipts(latest)
        await self._end_final()
        is_in_order = await self.repair(latest)
        await self._unstick(latest, pending)
        if is_in_order:
            self._in_order_at = asyncio.get_running_loop().time()

    @property
    def _is_at_rest(self) -> bool:
        """Nothing of the lane's waits for a block, no block was undone, and the node's counts, asked not long ago, left
        nothing to repair that can be now. What they could tell is that somebody else has used the key, which has time:
        whatever is signed next is looked after, and a node may bill each question."""
        if self._transactions.unmined or self._in_order_at is None:
            return False
        return asyncio.get_running_loop().time() - self._in_order_at < AT_REST_SECONDS

    async def counts(self) -> tuple[int, int]:
        """The key's transaction counts: mined, and with the node's pool."""
        answers: list[Any] = await self._client.provider.batch(
            [("eth_getTransactionCount", [self._address, tag]) for tag in ("latest", "pending")]
        )
        latest, pending = map(quantity, values(answers))
        return latest, max(latest, pending)

    # What the chain has

    async def _undo_reorged(self) -> None:
        """Compares the blocks of mined transactions with those that stand: each once, and again after every reorg."""
        missed = self._feed.reorgs != self._reorgs
        if missed:
            self._transactions.verified.clear()
            self._reorgs, self._in_order_at = self._feed.reorgs, None
        # What is above the head has a receipt that came before it.
        compared = [
            key
            for key in self._transactions.mined
            if key not in self._transactions.verified and (missed or key[0] <= self._feed.head.number)
        ]
        hashes = await self._feed.hashes_of({number for number, _ in compared})
        for key in compared:
            number, block_hash = key
            standing = hashes[number]
            if standing == "0x" + block_hash.hex():
                self._transactions.verified.add(key)
                continue
            if standing is None and number <= self._feed.head.number:
                continue  # this node is behind: a block it does not have yet was not undone
            async with self._transactions.writing:
                await self._store.mark_dropped(self._transactions.mined[key])
                transactions = self._transactions.dropped(key)
            measures.DROPPED.labels(self._transactions.chain, self._transactions.lane).inc(len(transactions))
            log.warning(
                "a reorg undid mined transactions; they are sent again",
                action="relayer.dropped",
                chain=self._transactions.chain,
                lane=self._transactions.lane,
                block=number,
                transactions=len(transactions),
            )
            self._sender.push(transactions)

    async def _take_receipts(self, latest: int) -> None:
        """Finds what became of nonces the chain has used."""
        used = [transaction for nonce, transaction in self._transactions.unmined.items() if nonce < latest]
        of_blocks = await self._receipts_of_blocks(used)
        for part in _parts(used, ROWS):
            receipts = _chosen(part, of_blocks)
            receipts |= await self._receipts([each for each in part if each.nonce not in receipts])
            for node in self._nodes()[1:]:
                late = [each for each in part if each.nonce not in receipts and each.used_since is not None]
                if late:
                    receipts |= await self._receipts(late, node)
            mined = [
                await self._mined(transaction, *receipts[transaction.nonce])
                for transaction in part
                if transaction.nonce in receipts
            ]
            if mined:
                async with self._transactions.writing:
                    moved = await self._store.mark_mined(mined)
                    if len(moved) != len(mined):
                        raise RuntimeError("the rows in flight are not those in memory")
                    for each in mined:
                        self._land(each)
            await self._give_up_taken([transaction for transaction in part if transaction.nonce not in receipts])
        unproven = [each for each in used if each.state.in_flight and each.asked_at is not None]
        measures.UNPROVEN.labels(self._transactions.chain, self._transactions.lane).set(
            sum(1 for each in unproven if each.taker is None and not each.landed)
        )

    async def _receipts_of_blocks(self, used: Sequence[LaneTransaction]) -> dict[bytes, Receipt]:
        """By hash, the receipts of the blocks that hold very many of these, which are in the order of their nonces."""
        if len(used) < MANY_IN_A_BLOCK:
            return {}
        ends = await self._receipts([used[0], used[-1]])
        if len(ends) < 2:
            return {}
        first, last = (ends[each.nonce][1].block_number for each in (used[0], used[-1]))
        if (last - first + 1) * MANY_IN_A_BLOCK > len(used):
            return {}
        receipts = await self._client.block_receipts(range(first, last + 1))
        return {bytes.fromhex(each.transaction_hash[2:]): each for each in receipts}

    async def _receipts(
        self, transactions: Sequence[LaneTransaction], client: ChainClient | None = None
    ) -> dict[int, tuple[Attempt, Receipt]]:
        """By nonce, the attempt that was mined."""
        asked = [(transaction, attempt) for transaction in transactions for attempt in transaction.attempts]
        if not asked:
            return {}
        receipts = await (client or self._client).receipts(["0x" + attempt.hash.hex() for _, attempt in asked])
        return {
            transaction.nonce: (attempt, receipt)
            for (transaction, attempt), receipt in zip(asked, receipts, strict=True)
            if receipt is not None
        }

    async def _mined(self, transaction: LaneTransaction, attempt: Attempt, receipt: Receipt) -> Mined:
        outcome, code, reason = MinedOutcome.SUCCEEDED, None, None
        if attempt.is_cancel:
            outcome = MinedOutcome.CANCELLED
            code, reason = transaction.doomed or (EXPIRED, "It was not mined in time; a no-op took its nonce.")
        elif not receipt.succeeded:
            outcome = MinedOutcome.REVERTED
            code, reason = await self._why(transaction, attempt, receipt)
        return Mined(
            transaction=transaction,
            tx_hash=attempt.hash,
            outcome=outcome,
            code=code,
            reason=reason,
            block_number=receipt.block_number,
            block_hash=bytes.fromhex(receipt.block_hash[2:]),
            gas_used=receipt.gas_used,
            fee_wei=receipt.fee_wei,
        )

    async def _why(self, transaction: LaneTransaction, attempt: Attempt, receipt: Receipt) -> tuple[str, str]:
        """(code, sentence) for a transaction mined reverted: the same call made on the block before it, then on its."""
        if receipt.gas_used >= attempt.gas_limit:
            return "out_of_gas", f"It ran out of the {attempt.gas_limit} gas it was given."
        call = {"from": self._address, "to": "0x" + transaction.to.hex(), "data": "0x" + transaction.data.hex()}
        call |= {"value": hex(transaction.value_wei), "gas": hex(attempt.gas_limit)}
        for number in (receipt.block_number - 1, receipt.block_number):
            try:
                await self._client.provider.call("eth_call", [call, hex(number)], Data)
            except RpcError as error:
                if error.kind is RpcErrorKind.REVERTED:
                    reason = explain(error, self._policy.errors)
                    return reason.name or "reverted", reason.message
        return OVERTAKEN, "It reverted when it was mined; the same call alone would not have."

    def _land(self, mined: Mined) -> None:
        transaction = mined.transaction
        transaction.outcome, transaction.block_number, transaction.block_hash = (
            mined.outcome,
            mined.block_number,
            mined.block_hash,
        )
        transaction.used_since = transaction.asked_at = transaction.taker = None
        self._transactions.landed_in(transaction, mined.fee_wei)
        if mined.outcome is not MinedOutcome.SUCCEEDED:
            log.warning(
                mined.reason or "",
                action=f"relayer.{mined.outcome.value}",
                chain=self._transactions.chain,
                intent=transaction.intent_id,
                kind=transaction.kind,
                code=mined.code,
                tx=mined.tx_hash,
            )

    async def _give_up_taken(self, transactions: Sequence[LaneTransaction]) -> None:
        """Nonces used without a receipt of ours: once a foreign transaction is known to have one, and stands deep
        enough, its intent goes back to the queue. A receipt that is only late proves nothing."""
        now, patience = asyncio.get_running_loop().time(), self._policy.patience
        for transaction in transactions:
            if transaction.used_since is None:
                transaction.used_since = now
        await self._name_takers(
            [each for each in transactions if now - (each.used_since or now) >= patience.doubt_after_seconds]
        )
        taken = [
            each
            for each in transactions
            if nonce_was_taken(
                each,
                head=self._feed.head.number,
                finality_blocks=self._feed.finality_blocks,
                now=now,
                patience=patience,
            )
        ]
        if not taken:
            return
        async with self._transactions.writing:
            await self._store.requeue(taken)
            for transaction in taken:
                self._transactions.requeued(transaction)
        measures.FOREIGN.labels(self._transactions.chain, self._transactions.lane).inc(len(taken))
        log.warning(
            "somebody else used our key's nonces; their intents get new ones",
            action="relayer.nonce_taken",
            chain=self._transactions.chain,
            lane=self._transactions.lane,
            nonces={
                transaction.nonce: "0x" + transaction.taker.tx_hash.hex()
                for transaction in taken[:20]
                if transaction.taker
            },
        )

    async def _name_takers(self, transactions: Sequence[LaneTransaction]) -> None:
        """Finds the foreign transactions that have these nonces, and forgets those whose blocks no longer stand."""
        now = asyncio.get_running_loop().time()
        hashes = await self._feed.hashes_of(
            {each.taker.block_number for each in transactions if each.taker is not None}
        )
        for transaction in transactions:
            if transaction.taker is not None:
                standing = hashes.get(transaction.taker.block_number)
                if standing is not None and standing != "0x" + transaction.taker.block_hash.hex():
                    transaction.taker = transaction.asked_at = transaction.used_since = None
        again = self._policy.patience.resend_after_seconds
        due = [
            each
            for each in transactions
            if each.taker is None and (each.asked_at is None or now - each.asked_at >= again)
        ]
        for transaction in due[:SEARCHES]:
            transaction.asked_at = now
            taker = await find_taker(self._client, self._address, transaction.nonce, self._feed.head.number)
            transaction.landed = taker is not None and taker.tx_hash in {each.hash for each in transaction.attempts}
            transaction.taker = None if transaction.landed else taker

    async def _end_final(self) -> None:
        """Ends what is in blocks too deep to be undone."""
        deep = self._feed.head.number - self._feed.finality_blocks
        keys = [key for key in self._transactions.mined if key[0] <= deep and key in self._transactions.verified]
        for key in keys:
            ends = []
            for transaction in self._transactions.mined[key]:
                assert transaction.outcome is not None
                ends.append((transaction, settled_state(transaction.outcome)))
            async with self._transactions.writing:
                await self._store.mark_ended(ends)
                self._transactions.ended(key, ends)

    # What the lane must repair

    async def repair(self, latest: int, *, begins: bool = False) -> bool:
        """Makes the lane's nonces agree with the chain's: goes on after foreign ones, fills what nobody owns. False
        when something seems to be wrong and is not yet certain: a count of one node at one moment moves nothing.

        `begins`: the lane is compared for the first time, so what its key was used for before is nobody else's."""
        async with self._transactions.writing:
            if self._in_order(latest):
                self._repair_wanted_since = None
                return True
            agreed = await self._agreed_count()
            if agreed is None or not await self._believed(agreed):
                return agreed is not None and self._in_order(agreed)
            is_repaired = await self._repair(agreed, begins)
            if is_repaired:
                self._repair_wanted_since = None
            return is_repaired

    def _in_order(self, latest: int) -> bool:
        """Every nonce the chain has not used is an intent's."""
        waiting = sum(1 for nonce in self._transactions.unmined if nonce >= latest)
        if latest <= self._transactions.next_nonce and waiting == self._transactions.next_nonce - latest:
            return True
        # Or the node's count lags behind receipts it gave.
        return latest <= self._transactions.next_nonce and self._held().issuperset(
            range(latest, self._transactions.next_nonce)
        )

    def _held(self) -> set[int]:
        return {
            *self._transactions.unmined,
            *(transaction.nonce for transactions in self._transactions.mined.values() for transaction in transactions),
        }

    async def _agreed_count(self) -> int | None:
        """The key's count at our head, when every node that can say says the same."""
        head, said = self._feed.head.number, set()
        for client in self._nodes():
            try:
                said.add(await client.eth.get_transaction_count(checksum(self._address), head))
            except RpcError:
                continue  # it is down, or has not seen this block
        return said.pop() if len(said) == 1 else None

    async def _believed(self, latest: int) -> bool:
        """The count asks for a repair. It is believed when the transaction before it is found, or after a while."""
        if self._in_order(latest):
            self._repair_wanted_since = None
            return False
        now = asyncio.get_running_loop().time()
        if self._repair_wanted_since is None:
            self._repair_wanted_since = now
        if now - self._repair_wanted_since >= self._policy.patience.believe_after_seconds:
            return True
        if latest <= self._transactions.next_nonce:
            return False
        return await find_taker(self._client, self._address, latest - 1, self._feed.head.number) is not None

    def _nodes(self) -> list[ChainClient]:
        """The chain through each of its URLs alone."""
        return [self._client.pinned(position) for position in range(len(self._client.provider.labels))]

    async def _repair(self, latest: int, begins: bool) -> bool:
        ended = await self._store.ended_from(latest)
        for node in self._nodes():
            if ended and await self._receipts(ended, node):
                return False  # the node's count lags behind its own receipts
        reconciled = reconcile(
            latest=latest,
            next_nonce=self._transactions.next_nonce,
            highest_row=self._transactions.next_nonce - 1 if self._transactions.next_nonce else None,
            live=self._held(),
            ended=[transaction.nonce for transaction in ended],
        )
        fillers = await self._noops(reconciled)
        if not fillers and not ended and reconciled.next_nonce == self._transactions.next_nonce:
            return True
        said = drift(None if begins else self._transactions.next_nonce, reconciled)
        if said is not None:
            log.warning(
                said, action="relayer.nonces_repaired", chain=self._transactions.chain, lane=self._transactions.lane
            )
        if latest > self._transactions.next_nonce and not begins:
            measures.FOREIGN.labels(self._transactions.chain, self._transactions.lane).inc(
                latest - self._transactions.next_nonce
            )
        if ended:
            await self._store.mark_dropped(ended)
            for transaction in ended:
                self._transactions.reopened(transaction)
            self._sender.push(ended)
        transactions = await self._store.fill_holes(fillers, reconciled.next_nonce)
        self._transactions.next_nonce = reconciled.next_nonce
        self._transactions.load(transactions)
        measures.HOLES.labels(self._transactions.chain, self._transactions.lane).inc(len(transactions))
        self._sender.push(transactions)
        return True

    async def _noops(self, reconciled: Reconciled) -> list[Signed]:
        """For the holes, as many as the hour's gas still pays for and the signer signs now; the rest comes later."""
        market = self._feed.market
        fees = quote(self._policy.fees, market)
        if fees is None or not reconciled.holes:
            return []
        left = (
            self._policy.gas_per_hour_wei - self._transactions.spent_wei - self._transactions.expected_gas_wei(market)
        )
        paid = max(0, left) // max(1, self._noop_gas * expected_price(fees, market))
        if paid < len(reconciled.holes):
            log.warning(
                "the hour's gas does not pay for every nonce to be filled",
                action="relayer.noops_over_allowance",
                chain=self._transactions.chain,
                lane=self._transactions.lane,
                holes=len(reconciled.holes),
                paid=paid,
            )
        return await self._signed([self._noop(nonce, fees) for nonce in reconciled.holes[: min(paid, REPLACEMENTS)]])

    def _noop(self, nonce: int, fees: Fees) -> Unsigned:
        lease = self._store.lease
        return Unsigned(lease.chain_id, nonce, fees, self._noop_gas, lease.signer.address, value_wei=0, data=b"")

    async def _signed(self, unsigned: Sequence[Unsigned]) -> list[Signed]:
        """The first of these, at most what one look may sign; none while the signer does not sign."""
        signer = self._store.lease.signer
        try:
            return await signer.sign_all(unsigned[: min(REPLACEMENTS, signer.at_once or REPLACEMENTS)])
        except SignerUnavailable as error:
            log.warning(
                error.message, action="relayer.not_signed", chain=self._transactions.chain, lane=self._transactions.lane
            )
            return []

    async def _unstick(self, latest: int, pending: int) -> None:
        line = self._line(latest, pending)
        again: list[LaneTransaction] = []
        replaced: list[tuple[LaneTransaction, Unsigned, bool]] = []
        for nonce in sorted(self._transactions.unmined):
            transaction = self._transactions.unmined[nonce]
            if nonce < latest or self._sender.waits(transaction):
                continue
            step = next_step(transaction, line, self._policy.patience)
            if step is NextStep.RESEND:
                again.append(transaction)
            elif step in (NextStep.BUMP, NextStep.CANCEL) and len(replaced) < REPLACEMENTS:
                cancel = step is NextStep.CANCEL or transaction.cancelling
                replacement = self._replacement(transaction, cancel=cancel)
                if replacement is not None:
                    replaced.append((transaction, replacement, cancel))
                elif step is NextStep.BUMP and line.stuck_seconds >= self._policy.patience.bump_after_seconds:
                    self._doom_if_only_its_own_cap_holds_it(transaction)
        if replaced:
            await self._replace(replaced, line.now)
        if again:
            measures.RESENDS.labels(self._transactions.chain, self._transactions.lane).inc(len(again))
            self._sender.push(again)

    def _line(self, latest: int, pending: int) -> LaneQueue:
        now, head = asyncio.get_running_loop().time(), self._feed.head
        if latest != self._latest or not self._transactions.unmined or self._moved_at is None:
            self._moved_at = (now, head.number)
        self._latest = latest
        since, height = self._moved_at
        return LaneQueue(
            latest=latest,
            pending=pending,
            now=now,
            chain_time=head.timestamp,
            stuck_seconds=now - since,
            stuck_blocks=head.number - height,
            market=self._feed.market,
        )

    def _replacement(self, transaction: LaneTransaction, *, cancel: bool) -> Unsigned | None:
        """The same nonce at higher fees; None when they would exceed the cap, and only waiting is left."""
        fees = bump(
            self._policy.fees,
            self._feed.market,
            transaction.newest.fees,
            None if cancel else transaction.max_fee_cap_wei,
        )
        if fees is None:
            return None
        if cancel:
            return self._noop(transaction.nonce, fees)
        return Unsigned(
            self._store.lease.chain_id,
            transaction.nonce,
            fees,
            transaction.newest.gas_limit,
            transaction.to,
            transaction.value_wei,
            transaction.data,
        )

    def _doom_if_only_its_own_cap_holds_it(self, transaction: LaneTransaction) -> None:
        """An intent that may pay less than the chain's cap must not hold up everything behind it."""
        if transaction.max_fee_cap_wei is None or transaction.doomed is not None:
            return
        if bump(self._policy.fees, self._feed.market, transaction.newest.fees) is not None:
            cap = transaction.max_fee_cap_wei / 1e9
            reason = f"The base fee rose above the {cap:g} gwei it may pay; a no-op took its nonce."
            transaction.doomed = ("fee_cap", reason)

    async def _replace(self, replacements: Sequence[tuple[LaneTransaction, Unsigned, bool]], now: float) -> None:
        signed = await self._signed([unsigned for _, unsigned, _ in replacements])
        async with self._transactions.writing:
            # Signing may have taken its time: what is no longer on its way, or no longer on this nonce, is left alone.
            replaced = [
                (transaction, attempt_of(each, is_cancel=cancel))
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
            (measures.CANCELS if attempt.is_cancel else measures.BUMPS).labels(
                self._transactions.chain, self._transactions.lane
            ).inc()
            log.info(
                "cancelling" if attempt.is_cancel else "raising the fees",
                action="relayer.replaced",
                chain=self._transactions.chain,
                intent=transaction.intent_id,
                nonce=transaction.nonce,
                max_fee_wei=attempt.fees.max_fee_wei,
                attempt=len(transaction.attempts),
            )
        self._sender.push([transaction for transaction, _ in replaced])


def _chosen(
    transactions: Sequence[LaneTransaction], receipts: Mapping[bytes, Receipt]
) -> dict[int, tuple[Attempt, Receipt]]:
    """By nonce, the attempt that one of these receipts is of."""
    return {
        transaction.nonce: (attempt, receipts[attempt.hash])
        for transaction in transactions
        for attempt in transaction.attempts
        if attempt.hash in receipts
    }


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
