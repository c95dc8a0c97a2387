"""From queued to signed: takes intents, checks them, and stores them signed with the lane's next nonces."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Iterator, Sequence

from core.chain import RpcError, checksum
from core.hexadecimal import hex_of
from core.log import get_logger
from core.outbox.lanes import LaneStatus
from relayer import metrics
from relayer.nonces import find_transaction_by_nonce
from relayer.policy import CONTRACTS_SHARE, LaneSnapshot, expected_price, lane_status
from relayer.preflight import Checked, CheckTerms, check, refused_unasked
from relayer.queries import LaneQueries
from relayer.sending import LaneParts
from relayer.signing import Signed, Unsigned
from relayer.transactions import Candidate, Former, IntentRefusal, Prepared, unsigned_of

log = get_logger(__name__)

# New intents are announced; this is for announcements lost with a connection.
LOOK_AGAIN_SECONDS = 1.0
BLOCKED_SECONDS = 0.5
# How long no other lane asks for the same signatures. One that outlasts it is stored all the same, if it is the first.
CLAIM_SECONDS = 30.0


class Assigner:
    """One lane's intake: it takes queued intents, checks them and signs them. `claims` is shared by the lanes of one
    chain in this process, so none checks for another."""

    def __init__(self, parts: LaneParts, queries: LaneQueries, claims: set[int]) -> None:
        self.status = LaneStatus.STARTING
        self.detail = ""
        self.balance_wei: int | None = None
        self.wake = asyncio.Event()
        self._feed, self._store, self._transactions, self._sender, self._signer, self._policy = parts
        self._queries = queries
        self._claims = claims
        self._deferred: dict[int, float] = {}
        self._late_looked_at = -math.inf

    async def run(self) -> None:
        while True:
            self.wake.clear()
            self._transactions.landed.clear()
            self.status, self.detail = self.current_status()
            if self.status is LaneStatus.READY:
                if not await self.assign():
                    await _wait(self.wake, LOOK_AGAIN_SECONDS)
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
                node_down=self._feed.down_since is not None,
                base_fee_wei=market.base_fee_wei,
                balance_wei=self.balance_wei,
                worst_cost_wei=self._transactions.worst_cost_wei(),
                spent_wei=self._transactions.spent_wei,
                expected_wei=self._transactions.expected_gas_wei(market),
                in_flight=len(self._transactions.unmined),
                out_of_funds=self._sender.out_of_funds,
                signer_trouble=self._store.lease.signer.trouble,
            ),
            self._policy,
        )

    async def assign(self) -> bool:
        """Assign one batch; False when there was nothing to do."""
        now = time.monotonic()
        self._deferred = {intent: until for intent, until in self._deferred.items() if until > now}
        room = min(self._policy.batch_size, self._policy.max_in_flight - len(self._transactions.unmined))
        # A key service gets as many as it takes at a time: then the batch waits for one answer, not for a line of them.
        room = min(room, self._store.lease.signer.at_once or room)
        with self._claimed(await self._queries.queued(room, [*self._deferred, *self._claims])) as candidates:
            if candidates:
                await self._take(candidates)
        return bool(candidates)

    async def _refuse_late(self) -> None:
        """End what can no longer be sent. This needs neither key nor gas, so payers learn it now and not once the lane
        recovers. It goes by the last head we know, so without a node it waits."""
        now = time.monotonic()
        if now < self._late_looked_at + LOOK_AGAIN_SECONDS:
            return
        self._late_looked_at = now
        head = self._feed.head
        late = await self._queries.too_late(self._policy.batch_size, list(self._claims), head.timestamp)
        with self._claimed(late) as candidates:
            refusals = [refused_unasked(each, head) for each in candidates]
            await self._refuse(
                [each for each in refusals if each is not None], {each.intent_id: each for each in candidates}
            )

    @contextlib.contextmanager
    def _claimed(self, candidates: list[Candidate]) -> Iterator[list[Candidate]]:
        """Return those of these that no other lane took while we asked; none takes them before the end."""
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
        by_id = {each.intent_id: each for each in candidates}
        if checked.out_of_funds is not None:
            log.warning(checked.out_of_funds, action="relayer.lane_short", **self._transactions.where)
        await self._admit(checked, terms)
        if checked.doubted:
            await self._resolve(checked, by_id)
        until = time.monotonic() + self._policy.defer_seconds
        for intent_id, why in checked.deferred.items():
            self._deferred[intent_id] = until
            log.info(why, action="relayer.deferred", intent=intent_id, chain=self._transactions.chain)
        await self._refuse(checked.refused, by_id)
        if checked.ready:
            await self._sign(checked.ready, by_id)

    async def _admit(self, checked: Checked, terms: CheckTerms) -> None:
        """Let through what strangers have signed as far as their wallets' past allows (`relayer.policy`)."""
        signed = [each for each in checked.ready if each.candidate.payer is not None]
        if not signed:
            return
        records = await self._queries.payer_records(
            {each.candidate.payer for each in signed if each.candidate.payer is not None},
            {each.payer_code for each in signed if each.payer_code is not None},
        )
        allowance = self._policy.gas_per_hour_wei // CONTRACTS_SHARE
        book = self._transactions.payer_book(*records, terms.market, allowance)
        asked, checked.ready = checked.ready, []
        for each in asked:
            payer = each.candidate.payer
            worst_wei = each.gas_limit * expected_price(each.fees, terms.market)
            verdict = payer is None or book.judge(payer, each.payer_code, worst_wei)
            if verdict is True:
                checked.ready.append(each)
            elif verdict is False:
                checked.deferred[each.candidate.intent_id] = "Others of its payer are to be mined first."
            else:
                checked.refuse(each.candidate, IntentRefusal(each.candidate.intent_id, verdict.code, verdict.reason))
                metrics.PAYERS_REFUSED.labels(self._transactions.chain, self._transactions.lane, verdict.code).inc()

    async def _refuse(self, refusals: list[IntentRefusal], by_id: dict[int, Candidate]) -> None:
        if not refusals:
            return
        async with self._transactions.writing:
            ended = await self._store.refuse(refusals)
        for refusal in refusals:
            if refusal.intent_id in ended:
                candidate = by_id[refusal.intent_id]
                self._transactions.refused(candidate.kind, candidate.age_seconds)
                log.info(refusal.reason, action="relayer.refused", intent=refusal.intent_id, code=refusal.code)

    async def _sign(self, prepared: Sequence[Prepared], by_id: dict[int, Candidate]) -> None:
        """Store them signed, then push them. A key service is asked before any row is locked; what it signed for
        nonces that are others' by then is forgotten, and was never anywhere but here."""
        ready: dict[Unsigned, Signed] | None = None
        if self._store.lease.signer.at_once is not None:
            prepared = await self._queries.claim(prepared, CLAIM_SECONDS)
            lease, first = self._store.lease, self._transactions.next_nonce
            unsigned = [unsigned_of(each, lease.chain_id, first + number) for number, each in enumerate(prepared)]
            ready = dict(zip(unsigned, await self._signer.sign(unsigned), strict=False))  # as far as the service came
            if not ready:
                await self._queries.unclaim(prepared)
                return
        async with self._transactions.writing:
            transactions = await self._store.sign(prepared, ready)
            self._transactions.signed(transactions, [by_id[each.intent_id].age_seconds for each in transactions])
        self._sender.push(transactions)
        if ready and not transactions:
            await asyncio.sleep(BLOCKED_SECONDS)  # every nonce has moved on: not to ask, and pay, without pause

    async def _resolve(self, checked: Checked, by_id: dict[int, Candidate]) -> None:
        """Sort what had a nonce and would be refused now: landed after all, refused for certain, or not known yet."""
        former = await self._queries.former([each.intent_id for each in checked.doubted])
        for refusal in checked.doubted:
            signed = former.get(refusal.intent_id, [])
            try:
                landed = await self._landed(signed)
                if landed is None and await self._displaced(signed):
                    checked.refused.append(refusal)
                    continue
            except RpcError as error:
                checked.deferred[refusal.intent_id] = error.message
                continue
            checked.deferred[refusal.intent_id] = f"It may have landed under an earlier nonce. {refusal.reason}"
            if landed is not None and landed.lane_id == self._store.lease.lane_id:
                async with self._transactions.writing:
                    transaction = await self._store.take_back(refusal.intent_id, landed)
                    if transaction is not None:
                        self._transactions.signed([transaction], [by_id[refusal.intent_id].age_seconds])

    async def _landed(self, signed: list[Former]) -> Former | None:
        """Return the one of these that is in a block, asked of every node."""
        for node in self._feed.nodes:
            receipts = await node.receipts([hex_of(each.hash) for each in signed])
            for each, receipt in zip(signed, receipts, strict=True):
                if receipt is not None:
                    return each
        return None

    async def _displaced(self, signed: list[Former]) -> bool:
        """Return whether foreign transactions, too deep to be undone, have the nonces of all of these."""
        head, own = self._feed.head.number, {each.hash for each in signed}
        for address, nonce in sorted({(each.address, each.nonce) for each in signed}):
            rival = await find_transaction_by_nonce(self._feed.client, hex_of(address), nonce, head)
            if rival is None or rival.tx_hash in own or head - rival.block_number < self._feed.finality_blocks:
                return False
        return True

    async def keep_status(self) -> None:
        """Read the balance and the hour's spending, and publish the lane's status, for ever."""
        lane, chain = self._transactions.lane, self._transactions.chain
        published: tuple[LaneStatus, str] | None = None
        while True:
            async with self._transactions.writing:
                spent_wei, burnt_wei = await self._queries.gas_of_the_hour()
                self._transactions.spent_wei, self._transactions.burnt_wei = spent_wei, burnt_wei
            for kind, wei in self._transactions.burnt_wei.items():
                metrics.BURNT.labels(chain, lane, kind.value).set(wei / 1e18)
            metrics.SPENT.labels(chain, lane).set(self._transactions.spent_wei / 1e18)
            with contextlib.suppress(RpcError):
                await self._read_balance()
            now = self.status, self.detail = self.current_status()
            for status in LaneStatus:
                metrics.STATUS.labels(chain, lane, status.value).set(1 if status is self.status else 0)
            if published is None or now[0] is not published[0]:
                log.info(now[1], action="relayer.lane_status", chain=chain, lane=lane, status=now[0].value)
            async with self._transactions.writing:
                await self._store.report(*now, self.balance_wei)
            published = now
            await asyncio.sleep(self._policy.watch_seconds if now[0] is LaneStatus.READY else 1.0)

    async def _read_balance(self) -> None:
        lane, chain = self._transactions.lane, self._transactions.chain
        balance = await self._feed.client.eth.get_balance(checksum(self._store.lease.signer.address))
        metrics.BALANCE.labels(chain, lane).set(balance / 1e18)
        if balance < self._policy.low_balance_wei:
            log.warning(
                "the lane's key is low on gas", action="relayer.low_balance", chain=chain, lane=lane,
                ether=balance / 1e18,
            )  # fmt: skip
        if balance >= self._transactions.worst_cost_wei():
            self._sender.out_of_funds = None  # the node's refusal of the next resend brings it back if need be
        self.balance_wei = balance


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
