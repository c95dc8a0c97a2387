"""One lane, from taking its lease until the lease is lost: it compares its rows with the chain, then signs, sends and
follows transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import psycopg
from web3.types import Wei

from core.chain import RpcError, checksum
from core.db.engine import ConnectionPool
from core.errors import DatabaseError
from core.log import get_logger
from core.outbox import LaneStatus
from core.service.cancelling import cancel_and_wait
from relayer import metrics
from relayer.assignment import Assigner
from relayer.feed import ChainFeed
from relayer.following import Follower
from relayer.leases import Lease, LeaseLost
from relayer.nonces import NonceRepair
from relayer.policy import LanePolicy
from relayer.queued import LaneQueries
from relayer.sending import LaneParts, LaneSender, LaneSigner, Replacer
from relayer.store import LaneStore
from relayer.transactions import LaneTransactions

log = get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 15.0
NOOP_GAS_MARGIN_PERCENT = 30
# How often nodes are asked again while they disagree on the key's nonces.
POLL_SECONDS = 0.5
# A lane that has been starting for longer is unhealthy.
START_SECONDS = 60.0

_WELL = (LaneStatus.STARTING, LaneStatus.READY, LaneStatus.FULL)


class Lane:
    """One lane of this process. Any failure restarts it from its rows: after a database error it is unknown whether the
    commit happened, so nothing in memory can be trusted."""

    def __init__(
        self, lease: Lease, feed: ChainFeed, pool: ConnectionPool, *, policy: LanePolicy, claims: set[int]
    ) -> None:
        self.lease = lease
        self.name = lease.signer.label
        self._where = {"chain": feed.name, "lane": self.name}
        self._feed = feed
        self._store = LaneStore(pool, lease)
        self._queries = LaneQueries(pool, lease)
        self._policy = policy
        self._claims = claims
        self._assigner: Assigner | None = None
        self._transactions: LaneTransactions | None = None
        self._idle_since = time.monotonic()
        self._last_failure = ""

    @property
    def status(self) -> LaneStatus:
        return LaneStatus.STARTING if self._assigner is None else self._assigner.status

    @property
    def detail(self) -> str:
        if self._assigner is not None:
            return self._assigner.detail
        problem = f": {self._last_failure}" if self._last_failure else ""
        return f"It has been starting for {time.monotonic() - self._idle_since:.0f} s{problem}"

    @property
    def is_healthy(self) -> bool:
        """Return whether the lane is sending queued intents, or will soon do so."""
        if self._assigner is None:
            return time.monotonic() - self._idle_since < START_SECONDS
        return self.status in _WELL

    @property
    def is_idle(self) -> bool:
        """Return whether the lane has started, and no transaction is waiting for its block."""
        return self._transactions is not None and not self._transactions.unmined

    def wake(self, group: str | None) -> None:
        """Look for new intents at once if the lane serves this group; None means any group."""
        if self._assigner is not None and (group is None or group in self.lease.groups):
            self._assigner.wake.set()

    async def run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            started = asyncio.get_running_loop().time()
            try:
                self.lease.check()
                await self._run_once()
            except LeaseLost as lost:
                # If another process has the lane, `Leases` ends this task. Otherwise it goes on: a process that was
                # suspended finds its lease expired, and renews it if no other process has taken it.
                log.warning(lost.message, action="relayer.lane_lost", **self._where)
            except (psycopg.Error, DatabaseError, RpcError) as error:
                self._last_failure = f"{type(error).__name__}: {error}"
                log.warning(self._last_failure, action="relayer.lane_failed", **self._where)
            except Exception as error:
                self._last_failure = f"a bug, {type(error).__name__}"
                log.error("a bug stopped a lane; restarting it", action="relayer.lane_fault", exc=error, **self._where)
            finally:
                if self._assigner is not None:
                    self._idle_since = time.monotonic()
                self._assigner = self._transactions = None
                metrics.IN_FLIGHT.labels(self._feed.name, self.name).set(0)
            if asyncio.get_running_loop().time() - started > 4 * MAX_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _run_once(self) -> None:
        while not self._feed.has_head:
            self.lease.check()
            await self._feed.wait(0, 1.0)
        transactions, follower, sender, assigner = await self._recover()
        self._assigner, self._transactions, self._last_failure = assigner, transactions, ""
        flight = len(transactions.unmined)
        log.info("started a lane", action="relayer.lane_started", **self._where, in_flight=flight)
        await _first_failure(sender.run(), sender.mark(), follower.run(), assigner.keep_status(), assigner.run())

    async def _recover(self) -> tuple[LaneTransactions, Follower, LaneSender, Assigner]:
        """Build the lane's state from the rows and the chain. Transactions in flight are offered to the nodes again
        before any new one."""
        client, policy = self._feed.client, self._policy
        noop_gas = await self._noop_gas()
        latest = await client.eth.get_transaction_count(checksum(self.name))
        stored, next_nonce, highest = await self._store.transactions()
        owned = 0 if highest is None else highest + 1
        if next_nonce is not None and next_nonce > max(owned, latest):
            message = f"the lane's next nonce {next_nonce} is ahead of the chain and every row; lowering it"
            log.warning(message, action="relayer.nonces_repaired", **self._where, now=max(owned, latest))
        is_first_start = next_nonce is None
        transactions = LaneTransactions(self._feed.name, self.name, owned)
        transactions.load(stored)
        sender = LaneSender(self.lease, client, self._store, transactions, policy)
        signer = LaneSigner(self.lease, noop_gas, transactions.where)
        parts = LaneParts(self._feed, self._store, transactions, sender, signer, policy)
        nonces = NonceRepair(parts)
        follower = Follower(parts, nonces, Replacer(parts))
        if not is_first_start:
            await self._store.set_next_nonce(owned)
        transactions.spent_wei, transactions.burnt_wei = await self._queries.gas_of_the_hour()
        while not await nonces.repair(latest, is_first_start=is_first_start):
            self.lease.check()
            await asyncio.sleep(POLL_SECONDS)
            latest = await client.eth.get_transaction_count(checksum(self.name))
        if is_first_start:
            await self._store.set_next_nonce(transactions.next_nonce)
        sender.push(transaction for nonce, transaction in transactions.unmined.items() if nonce >= latest)
        return transactions, follower, sender, Assigner(parts, self._queries, self._claims)

    async def _noop_gas(self) -> int:
        """Return the gas limit of a no-op: 21000 on most chains, more where a rollup charges for its data as gas."""
        key = checksum(self.name)
        estimate = await self._feed.client.eth.estimate_gas({"from": key, "to": key, "value": Wei(0)})
        return estimate if estimate == 21_000 else estimate * (100 + NOOP_GAS_MARGIN_PERCENT) // 100


async def _first_failure(*works: Coroutine[Any, Any, None]) -> None:
    """Run endless tasks until one raises; cancel the others and raise that error."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        await cancel_and_wait(*tasks)
