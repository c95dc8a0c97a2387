"""One run of a job: its chain, the current head and index, and a way to submit transactions.

A job is `async def job(run: JobRun) -> None`. It reads through `run.chain`, decides with pure functions, and submits
with `run.submit`. In a dry run `run.submit` only adds to the report.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
from sqlalchemy import Executable, select
from sqlalchemy.ext.asyncio import AsyncEngine

from core.chain import Call, ChainClient, Contract, RpcError, RpcErrorKind
from core.chain.heads import final_block
from core.config import ChainName, KeeperSettings, Settings
from core.contracts.abi import abi
from core.contracts.deployments import Deployment
from core.db.engine import ConnectionPool
from core.db.schema.index import chain_cursor
from core.log import get_logger
from core.outbox import LaneReport
from core.outbox import report as lane_report
from keeper import attempts, metrics
from keeper.agent.crediting import Backlog
from keeper.attempts import Attempt, RetryWaits, TransactionRequest
from keeper.report import Action, RunReport

log = get_logger(__name__)
T = TypeVar("T")

APART_SECONDS = 60
"""The least chain time between two reads that confirm each other."""

_CLAIMED_SINCE = b"SELECT since FROM keeper_confirmation WHERE chain_id = %s AND subject = %s AND what = %s"
# A read with a new result restarts the wait; the same result keeps the start, unless time went back.
_RECORD_CLAIM = b"""
INSERT INTO keeper_confirmation AS c (chain_id, subject, what, since) VALUES (%s, %s, %s, %s)
ON CONFLICT (chain_id, subject) DO UPDATE SET what = excluded.what, since = excluded.since
WHERE c.what <> excluded.what OR c.since > excluded.since
"""

INDEX_LAG_SECONDS = 60
"""Nothing new is listed while the index is further behind the head than this, in chain time."""


@dataclass(frozen=True)
class KeeperChain:
    """A chain as jobs use it. `single_nodes` has one client for each URL, if two or more are configured."""

    name: ChainName
    deployment: Deployment
    client: ChainClient
    single_nodes: tuple[ChainClient, ...] = ()

    @property
    def chain_id(self) -> int:
        return self.deployment.chain_id

    @property
    def is_local(self) -> bool:
        return self.deployment.kind == "local"

    def contract(self, name: str, *others: str) -> Contract:
        """Return one of our contracts by its name in the deployment file. `others` are contracts whose errors this one
        may pass on."""
        return Contract(self.deployment.contract(name).address, abi(name), *(abi(each) for each in others))

    def at(self, address: str, interface: str) -> Contract:
        return Contract(address, abi(interface))


@dataclass(frozen=True, slots=True)
class IndexState:
    """The state of a chain's index: number and time of its last block, `block.number` as contracts saw it there
    (`l1_number`), and the node's finalized block, if the node has one."""

    number: int
    time: int
    l1_number: int
    state: str
    finalized: int | None = None

    def trails(self, now: int) -> str | None:
        """Return why the index is not current, or None if it is current."""
        if self.state != "tail":
            return f"the index is in state {self.state}"
        behind = now - self.time
        return f"the index is {behind} s behind the chain" if behind > INDEX_LAG_SECONDS else None


async def index_state(engine: AsyncEngine, chain_id: int) -> IndexState | None:
    """Return the state of a chain's index, or None before the first block is indexed."""
    columns = chain_cursor.c
    query = select(columns.number, columns.block_time, columns.l1_block_number, columns.state, columns.finalized_number)
    async with engine.connect() as connection:
        row = (await connection.execute(query.where(columns.chain_id == chain_id))).first()
    if row is None or row.block_time is None:
        return None
    return IndexState(row.number, row.block_time, row.l1_block_number or row.number, row.state, row.finalized_number)


FREQUENT_KINDS = ("price", "observe", "record")
"""Submitted so often that they are logged at debug level."""


@dataclass(frozen=True)
class Keeper:
    """The dependencies that all jobs of this process share."""

    settings: Settings
    how: KeeperSettings
    pool: ConnectionPool
    engine: AsyncEngine
    http: aiohttp.ClientSession
    chains: Mapping[ChainName, KeeperChain]
    backlog: Backlog = field(default_factory=Backlog)


@dataclass
class JobRun:
    """One run of a job. `now` is the chain's time and `head` its newest block. `head_late` is why that block is too
    old, or None."""

    keeper: Keeper
    chain: KeeperChain
    report: RunReport
    now: int
    head: int
    index: IndexState | None
    head_late: str | None = None
    dry_run: bool = False
    known_attempts: dict[str, Attempt] = field(default_factory=dict)

    @property
    def indexed_block(self) -> int:
        return -1 if self.index is None else self.index.number

    @property
    def final_block(self) -> int:
        """Return the number of the newest indexed block that is final; negative before there is one."""
        if self.index is None:
            return -1
        depth = self.keeper.settings.chain(self.chain.name).finality_blocks
        return final_block(self.index.number, self.index.finalized, depth)

    def index_problem(self) -> str | None:
        """Return why the index is not fit for listing markets, or None if it is."""
        return "nothing of this chain is indexed yet" if self.index is None else self.index.trails(self.now)

    def default(self, setting: T | None, *, local: T, live: T) -> T:
        """Return a setting or, if it is None, the default for this kind of deployment."""
        if setting is not None:
            return setting
        return local if self.chain.is_local else live

    def skip_if(self, problem: str | None) -> bool:
        """If there is a problem, report that the run skips everything because of it. Return whether there is a
        problem."""
        if problem is not None:
            self.report.skip("everything", problem)
        return problem is not None

    async def wait_reasons(self, subjects: Sequence[str], retry: RetryWaits) -> dict[str, str | None]:
        """Return for each subject why it must wait, or None if an attempt may be made now. Remember the attempts for
        `submit`."""
        async with self.keeper.pool.connection() as connection:
            self.known_attempts.update(await attempts.latest_attempts(connection, self.chain.chain_id, subjects))
        return {
            each: attempts.wait_reason(self.known_attempts.get(each), self.indexed_block, retry) for each in subjects
        }

    async def ready(self, targets: Mapping[str, str], retry: RetryWaits) -> list[str]:
        """Return the subjects that may be attempted now, and report why the others must wait. `targets` maps each
        subject to its name in the report."""
        waiting = await self.wait_reasons(list(targets), retry)
        for subject, reason in waiting.items():
            if reason is not None:
                self.report.skip(targets[subject], reason)
        return [subject for subject, reason in waiting.items() if reason is None]

    async def submit(self, request: TransactionRequest, retry: RetryWaits) -> Action | None:
        """Submit a transaction. If one of its subjects must wait, skip the transaction and report the reason."""
        missing = [subject for subject in request.subjects if subject not in self.known_attempts]
        if missing:
            await self.wait_reasons(missing, retry)
        for subject in request.subjects:
            why = attempts.wait_reason(self.known_attempts.get(subject), self.indexed_block, retry)
            if why is not None:
                self.report.skip(request.target, why)
                return None
        if self.dry_run:
            action = Action(request.kind, request.target, "dry-run", request.detail)
            self.report.actions.append(action)
            return action
        async with self.keeper.pool.connection() as connection:
            intent = await attempts.submit(connection, self.chain.chain_id, request, self.known_attempts)
        if intent is None:
            self.report.skip(request.target, "another keeper submitted it a moment ago")
            return None
        action = Action(request.kind, request.target, str(intent.state), request.detail, intent.tx_hash_hex, intent.id)
        self.report.actions.append(action)
        metrics.ACTIONS.labels(self.report.job, request.kind).inc()
        say = log.debug if request.kind in FREQUENT_KINDS else log.info
        say(request.detail, action="keeper.submitted", job=self.report.job, kind=request.kind, target=request.target)
        return action

    async def is_confirmed(self, subject: str, what: str) -> bool:
        """Record the result of this read, except in a dry run. Return whether all reads have had this result for at
        least APART_SECONDS. Money is only refunded on two reads that agree."""
        return self.now - await self.claimed_since(subject, what) >= APART_SECONDS

    async def claimed_since(self, subject: str, what: str) -> int:
        """Record the result of this read, except in a dry run. Return since when all reads, by any keeper, have had
        this result."""
        async with self.keeper.pool.connection() as connection:
            if not self.dry_run:
                await connection.execute(_RECORD_CLAIM, (self.chain.chain_id, subject, what, self.now))
            since: int | None = await connection.fetch_value(_CLAIMED_SINCE, (self.chain.chain_id, subject, what))
        return self.now if since is None else since

    def measure_due(self, what: str, due_at: Iterable[int], units: int | None = None) -> None:
        """Set the gauges of due work: its amount (`units`, or else the count) and the age of the oldest item. `due_at`
        has chain times, so every leader reports the same age. Ages are measured at the indexed block: during a
        backfill, work that was done in time is not late."""
        now = self.now if self.index is None else self.index.time
        ages = [max(0, now - at) for at in due_at]
        metrics.DUE.labels(self.report.job, what).set(len(ages) if units is None else units)
        metrics.DUE_OLDEST.labels(self.report.job, what).set(max(ages, default=0))

    async def lanes_problem(self, group: str) -> str | None:
        """Return why more transactions of this group would only pile up, or None if they would not. Lanes that are
        merely down do not count."""
        if not await self.lanes(group):
            return f"no relayer has a key for the lane group {group} on this chain"
        return None

    async def lanes(self, group: str) -> list[LaneReport]:
        """Return the lanes of this group, except lanes whose key was removed."""
        async with self.keeper.pool.connection() as connection:
            report = await lane_report(connection, self.chain.chain_id, group)
        return [lane for lane in report.lanes if not lane.is_gone]

    async def rows(self, query: Executable, values: Mapping[str, Any] | None = None) -> list[Any]:
        """Query the database."""
        async with self.keeper.engine.connect() as connection:
            return list((await connection.execute(query, values)).all())

    async def read(self, call: Call) -> object:
        """Read a view at this run's head."""
        return await self.chain.client.read(call, self.head)

    async def read_all(
        self, calls: Sequence[Call], accepted_errors: Collection[RpcErrorKind] = (RpcErrorKind.REVERTED,)
    ) -> list[object | RpcError]:
        """Read views at this run's head. Return for each view its value, or its error if the kind of error is in
        `accepted_errors`. Raise any other error, such as a node failure."""
        answers = await self.chain.client.read_many(calls, self.head)
        for answer in answers:
            if isinstance(answer, RpcError) and answer.kind not in accepted_errors:
                raise answer
        return answers

    async def revert_reason(self, call: Call) -> str | None:
        """Return the error with which the contract would revert this call now, or None if the call would succeed."""
        try:
            await self.chain.client.simulate(call)
        except RpcError as error:
            if error.kind is not RpcErrorKind.REVERTED:
                raise
            return error.message
        return None
