"""From queued to signed: take intents, check them, and store them signed with the lane's next nonces."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Iterator, Sequence

from core.chain import RpcError, checksum
from core.hexadecimal import hex_of
from core.log import get_logger
from core.outbox import LaneStatus
from relayer import metrics
from relayer.nonces import find_transaction_by_nonce
from relayer.policy import CONTRACTS_SHARE, Admission, LaneSnapshot, PayerBook, PayerKind, expected_price, lane_status
from relayer.queued import Checked, CheckTerms, LaneQueries, check, refuse_without_node
from relayer.sending import LaneParts
from relayer.signing import Signed, Unsigned
from relayer.transactions import Candidate, FormerTransaction, IntentRefusal, Prepared

log = get_logger(__name__)

# New intents are announced; polling covers announcements lost with a connection.
QUEUE_POLL_SECONDS = 1.0
BLOCKED_SECONDS = 0.5
# How long other lanes leave a claimed intent alone. A signature that takes longer is stored all the same if no other
# lane stored one first.
CLAIM_SECONDS = 30.0
# How often a ready lane reads its balance. If it is spent sooner, a node refuses the next transaction.
BALANCE_SECONDS = 120.0


class Assigner:
    """The first half of a lane. The lanes of one chain in this process share `claims`, so that no two lanes check the
    same intent."""

    def __init__(self, parts: LaneParts, queries: LaneQueries, claims: set[int]) -> None:
        self.status = LaneStatus.STARTING
        self.detail = ""
        self.balance_wei: int | None = None
        self.wake = asyncio.Event()
        self._feed, self._store, self._transactions, self._sender, self._signer, self._policy = parts
        self._queries = queries
        self._claims = claims
        self._deferred: dict[int, float] = {}
        self._late_refused_at = self._balance_read_at = -math.inf

    async def run(self) -> None:
        while True:
            self.wake.clear()
            self._transactions.landed.clear()
            self.status, self.detail = self.current_status()
            if self.status is LaneStatus.READY:
                if not await self.assign():
                    await _wait(self.wake, QUEUE_POLL_SECONDS)
                continue
            await self._refuse_late()
            if self.status is LaneStatus.FULL:
                await _wait(self._transactions.landed, BLOCKED_SECONDS)
            else:
                await asyncio.sleep(BLOCKED_SECONDS)

    def current_status(self) -> tuple[LaneStatus, str]:
        market = self._feed.market
        return lane_status(
            LaneSnapshot(
                node_problem=self._feed.problem,
                base_fee_wei=market.base_fee_wei,
                balance_wei=self.balance_wei,
                worst_cost_wei=self._transactions.worst_cost_wei(),
                spent_wei=self._transactions.spent_wei,
                expected_wei=self._transactions.expected_gas_wei(market),
                in_flight=len(self._transactions.unmined),
                out_of_funds=self._sender.out_of_funds,
                signer_problem=self._store.lease.signer.problem,
            ),
            self._policy,
        )

    async def assign(self) -> bool:
        """Assign one batch; return whether more intents may be queued."""
        now = time.monotonic()
        self._deferred = {intent: until for intent, until in self._deferred.items() if until > now}
        room = min(self._policy.batch_size, self._policy.max_in_flight - len(self._transactions.unmined))
        # A key service gets as many as it signs at once, so that the batch waits for one response and not for several.
        room = min(room, self._store.lease.signer.at_once or room)
        queued = await self._queries.queued(room, [*self._deferred, *self._claims])
        with self._claimed(queued) as candidates:
            if candidates:
                await self._feed.refresh()
                await self._take(candidates)
        return len(queued) == room

    async def _refuse_late(self) -> None:
        """Refuse intents whose deadline has passed while the lane is not signing, so that payers need not wait until
        the lane recovers."""
        now = time.monotonic()
        if now < self._late_refused_at + QUEUE_POLL_SECONDS:
            return
        self._late_refused_at = now
        head = self._feed.head
        late = await self._queries.too_late(self._policy.batch_size, list(self._claims), head.timestamp)
        with self._claimed(late) as candidates:
            refusals = [refuse_without_node(each, head) for each in candidates]
            await self._refuse([each for each in refusals if each is not None])

    @contextlib.contextmanager
    def _claimed(self, candidates: list[Candidate]) -> Iterator[list[Candidate]]:
        """Yield the candidates that no other lane of this process has claimed. Claim these candidates until the `with`
        block ends."""
        free = [each for each in candidates if each.intent_id not in self._claims]
        ids = {each.intent_id for each in free}
        self._claims |= ids
        try:
            yield free
        finally:
            self._claims -= ids

    async def _take(self, candidates: list[Candidate]) -> None:
        terms = CheckTerms(self._feed.head, self._feed.market, self._policy)
        try:
            checked = await check(self._feed.client, self._store.lease.signer.address, candidates, terms)
        except RpcError as error:
            checked = Checked(deferred={each.intent_id: error.message for each in candidates})
        if checked.out_of_funds is not None:
            log.warning(checked.out_of_funds, action="relayer.lane_short", **self._transactions.where)
        await self._admit(checked, terms)
        if checked.doubted:
            await self._resolve(checked)
        until = time.monotonic() + self._policy.defer_seconds
        for intent_id, why in checked.deferred.items():
            self._deferred[intent_id] = until
            log.info(why, action="relayer.deferred", intent=intent_id, **self._transactions.where)
        await self._refuse(checked.refused)
        if checked.ready:
            await self._sign(checked.ready)

    async def _admit(self, checked: Checked, terms: CheckTerms) -> None:
        """Refuse or defer transactions of payers whose recent reverts have cost us too much."""
        payers = {each.call.payer for each in checked.ready if each.call.payer is not None}
        if not payers:
            return
        codes = {each.payer_code for each in checked.ready if each.payer_code is not None}
        book = PayerBook(
            *await self._queries.payer_records(payers, codes),
            burnt_wei=self._transactions.burnt_wei[PayerKind.CONTRACT],
            unmined_wei=self._transactions.expected_gas_wei(terms.market, (PayerKind.CONTRACT,)),
            allowance_wei=self._policy.gas_per_hour_wei // CONTRACTS_SHARE,  # rounded down
        )
        candidates, checked.ready = checked.ready, []
        for each in candidates:
            worst_wei = each.gas_limit * expected_price(each.fees, terms.market)
            payer = each.call.payer
            verdict = Admission.SEND if payer is None else book.judge(payer, each.payer_code, worst_wei)
            if verdict is Admission.SEND:
                checked.ready.append(each)
            elif verdict is Admission.WAIT:
                checked.deferred[each.call.intent_id] = "Its payer's earlier transactions must be mined first."
            else:
                checked.refuse(IntentRefusal(each.candidate, verdict.code, verdict.reason))
                metrics.PAYERS_REFUSED.labels(**self._transactions.where, why=verdict.code).inc()

    async def _refuse(self, refusals: list[IntentRefusal]) -> None:
        if not refusals:
            return
        async with self._transactions.writing:
            ended = await self._store.refuse(refusals)
        for each in refusals:
            if each.candidate.intent_id in ended:
                self._transactions.count_refused(each.candidate)
                log.info(each.reason, action="relayer.refused", intent=each.candidate.intent_id, code=each.code)

    async def _sign(self, prepared: Sequence[Prepared]) -> None:
        """Sign the transactions, store them, then push them to the sender. A key service signs before any row is
        locked. Signatures for nonces that have been taken by then are discarded."""
        ready: dict[Unsigned, Signed] | None = None
        if self._store.lease.signer.at_once is not None:
            prepared = await self._queries.claim(prepared, CLAIM_SECONDS)
            lease, first = self._store.lease, self._transactions.next_nonce
            unsigned = [each.unsigned(lease.chain_id, first + number) for number, each in enumerate(prepared)]
            ready = dict(zip(unsigned, await self._signer.sign(unsigned), strict=False))  # as far as the service came
            if not ready:
                await self._queries.unclaim(prepared)
                return
        async with self._transactions.writing:
            transactions = await self._store.sign(prepared, ready)
            ages = {each.call.intent_id: each.candidate.age_seconds for each in prepared}
            self._transactions.add_signed(transactions, ages)
        self._sender.push(transactions)
        if ready and not transactions:
            await asyncio.sleep(BLOCKED_SECONDS)  # all nonces had moved on: do not pay for signatures in a tight loop

    async def _resolve(self, checked: Checked) -> None:
        """Decide the next step of each intent that would be refused but once had a nonce. The intent has landed after
        all, can be refused, or must wait."""
        former = await self._queries.former([each.candidate.intent_id for each in checked.doubted])
        for refusal in checked.doubted:
            intent_id = refusal.candidate.intent_id
            signed = former.get(intent_id, [])
            try:
                landed = await self._landed(signed)
                if landed is None and await self._displaced(signed):
                    checked.refused.append(refusal)
                    continue
            except RpcError as error:
                checked.deferred[intent_id] = error.message
                continue
            checked.deferred[intent_id] = f"It may have landed under an earlier nonce. {refusal.reason}"
            if landed is not None and landed.lane_id == self._store.lease.lane_id:
                async with self._transactions.writing:
                    transaction = await self._store.take_back(intent_id, landed)
                    if transaction is not None:
                        self._transactions.add_signed([transaction], {intent_id: refusal.candidate.age_seconds})

    async def _landed(self, signed: list[FormerTransaction]) -> FormerTransaction | None:
        for node in self._feed.nodes:
            receipts = await node.receipts([hex_of(each.hash) for each in signed])
            for each, receipt in zip(signed, receipts, strict=True):
                if receipt is not None:
                    return each
        return None

    async def _displaced(self, signed: list[FormerTransaction]) -> bool:
        """Return whether foreign transactions in final blocks have used the nonces of all these transactions."""
        head, own = self._feed.head.number, {each.hash for each in signed}
        for address, nonce in sorted({(each.address, each.nonce) for each in signed}):
            rival = await find_transaction_by_nonce(self._feed.client, hex_of(address), nonce, head)
            if rival is None or rival.tx_hash in own or head - rival.block_number < self._feed.finality_blocks:
                return False
        return True

    async def keep_status(self) -> None:
        """Read the balance and the hourly spending, and publish the lane's status, forever."""
        where = self._transactions.where
        published: LaneStatus | None = None
        while True:
            async with self._transactions.writing:
                spent_wei, burnt_wei = await self._queries.gas_of_the_hour()
                self._transactions.spent_wei, self._transactions.burnt_wei = spent_wei, burnt_wei
            for kind, wei in burnt_wei.items():
                metrics.BURNT.labels(**where, payer=kind.value).set(wei / 1e18)
            metrics.SPENT.labels(**where).set(spent_wei / 1e18)
            if published is not LaneStatus.READY or time.monotonic() - self._balance_read_at >= BALANCE_SECONDS:
                with contextlib.suppress(RpcError):
                    await self._read_balance()
            status, detail = self.status, self.detail = self.current_status()
            for each in LaneStatus:
                metrics.STATUS.labels(**where, status=each.value).set(1 if each is status else 0)
            if status is not published:
                log.info(
                    "the lane's status changed", action="relayer.lane_status", **where, status=status.value, why=detail
                )
            published = status
            async with self._transactions.writing:
                await self._store.report(status, detail, self.balance_wei)
            await asyncio.sleep(self._policy.watch_seconds if status is LaneStatus.READY else 1.0)

    async def _read_balance(self) -> None:
        read_at = time.monotonic()
        balance = await self._feed.client.eth.get_balance(checksum(self._store.lease.signer.address))
        metrics.BALANCE.labels(**self._transactions.where).set(balance / 1e18)
        if balance >= self._transactions.worst_cost_wei():
            self._sender.out_of_funds = None  # set again if a node refuses the next resend
        self.balance_wei, self._balance_read_at = balance, read_at


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
