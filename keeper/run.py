"""One run of a job: its chain, the current head and index, a way to submit transactions, and its report.

A job is `async def job(run: JobRun) -> None`. In a dry run, `run.submit` only adds to the report.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
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
from core.iso import iso_datetime
from core.log import get_logger
from core.outbox import LaneReport
from core.outbox import report as lane_report
from keeper import attempts, metrics
from keeper.attempts import Attempt, RetryWaits, TransactionRequest

log = get_logger(__name__)
T = TypeVar("T")

APART_SECONDS = 60
"""The shortest chain time between two reads that confirm each other."""

_CLAIMED_SINCE = b"SELECT since FROM keeper_confirmation WHERE chain_id = %s AND subject = %s AND what = %s"
# A read with a new result restarts the wait; the same result keeps the start, unless time went back.
_RECORD_CLAIM = b"""
INSERT INTO keeper_confirmation AS c (chain_id, subject, what, since) VALUES (%s, %s, %s, %s)
ON CONFLICT (chain_id, subject) DO UPDATE SET what = excluded.what, since = excluded.since
WHERE c.what <> excluded.what OR c.since > excluded.since
"""

INDEX_LAG_SECONDS = 60
"""No market is listed while the index is further behind the head, in chain time."""


@dataclass(frozen=True)
class KeeperChain:
    """A chain as jobs use it. `single_nodes` has one client for each node URL if two or more are configured."""

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
        """Return a contract of the deployment file. `others` are the names of contracts whose errors this contract may
        pass on."""
        return Contract(self.deployment.contract(name).address, abi(name), *(abi(each) for each in others))

    def at(self, address: str, interface: str) -> Contract:
        return Contract(address, abi(interface))


@dataclass(frozen=True, slots=True)
class IndexState:
    """The state of a chain's index. `number` and `time` are those of its last block, and `l1_number` is `block.number`
    as contracts saw it in that block. `finalized` is the node's finalized block."""

    number: int
    time: int
    l1_number: int
    state: str
    finalized: int | None = None

    def trails(self, now: int) -> str | None:
        """Return why the index is not current, or None if it is."""
        if self.state != "tail":
            return f"the index is in state {self.state}"
        behind = now - self.time
        return f"the index is {behind} s behind the chain" if behind > INDEX_LAG_SECONDS else None


async def index_state(engine: AsyncEngine, chain_id: int) -> IndexState | None:
    columns = chain_cursor.c
    query = select(columns.number, columns.block_time, columns.l1_block_number, columns.state, columns.finalized_number)
    async with engine.connect() as connection:
        row = (await connection.execute(query.where(columns.chain_id == chain_id))).first()
    if row is None or row.block_time is None:
        return None
    return IndexState(row.number, row.block_time, row.l1_block_number or row.number, row.state, row.finalized_number)


FREQUENT_KINDS = ("price", "observe", "record")
"""Kinds that are submitted so often that they are logged at debug level."""


@dataclass(frozen=True)
class Keeper:
    settings: Settings
    how: KeeperSettings
    pool: ConnectionPool
    engine: AsyncEngine
    http: aiohttp.ClientSession
    chains: Mapping[ChainName, KeeperChain]
    memory: dict[str, Any] = field(default_factory=dict)
    """What jobs remember between runs, while this keeper is the leader."""


# ---------------------------------------------------------------- what a run did


SKIPPED_SHOWN = 200
"""The limit in a body: thousands of positions may be skipped for the same reason."""


@dataclass(frozen=True, slots=True)
class Action:
    """A submitted transaction. `status` is the intent's state, or `dry-run` if nothing was submitted."""

    kind: str
    target: str
    status: str
    detail: str
    tx_hash: str | None = None
    intent_id: int | None = None

    def body(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "target": self.target,
            "status": self.status,
            "txHash": self.tx_hash,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Skipped:
    """A target that the run left alone, with the reason."""

    target: str
    reason: str

    def body(self) -> dict[str, Any]:
        return {"target": self.target, "reason": self.reason}


@dataclass(slots=True)
class RunReport:
    job: str
    started_at: datetime
    finished_at: datetime | None = None
    actions: list[Action] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.errors

    def skip(self, target: str, reason: str) -> None:
        self.skipped.append(Skipped(target, reason))

    def skip_all(self, targets: Sequence[str], reason: str) -> None:
        self.skipped += [Skipped(target, reason) for target in targets]

    def update(self, position: int, status: str, tx_hash: str | None) -> None:
        self.actions[position] = replace(self.actions[position], status=status, tx_hash=tx_hash)

    def body(self) -> dict[str, Any]:
        left = [each.body() for each in self.skipped[:SKIPPED_SHOWN]]
        if len(self.skipped) > SKIPPED_SHOWN:
            left.append({"target": "others", "reason": f"{len(self.skipped) - SKIPPED_SHOWN} more are not listed"})
        return {
            "job": self.job,
            "ok": self.ok,
            "startedAt": iso_datetime(self.started_at),
            "finishedAt": iso_datetime(self.finished_at) if self.finished_at else None,
            "actions": [each.body() for each in self.actions],
            "skipped": left,
            "errors": list(self.errors),
        }


# ---------------------------------------------------------------- what a run reads and submits


@dataclass
class JobRun:
    """One run of a job. `now` is the chain's time and `head` is its newest block. `head_late` says why that block is
    too old, or is None."""

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
        """Return the newest final block of the index, or a negative number if there is none yet."""
        if self.index is None:
            return -1
        depth = self.keeper.settings.chain(self.chain.name).finality_blocks
        return final_block(self.index.number, self.index.finalized, depth)

    def index_problem(self) -> str | None:
        """Return why the state of the index does not allow listings, or None if it does."""
        return "nothing of this chain is indexed yet" if self.index is None else self.index.trails(self.now)

    def default(self, setting: T | None, *, local: T, live: T) -> T:
        if setting is not None:
            return setting
        return local if self.chain.is_local else live

    def skip_if(self, problem: str | None) -> bool:
        """Return whether there is a problem. If so, report that the run skips everything because of it."""
        if problem is not None:
            self.report.skip("everything", problem)
        return problem is not None

    async def wait_reasons(self, subjects: Sequence[str], retry: RetryWaits) -> dict[str, str | None]:
        """Return why each subject must wait, or None if an attempt may be made now. Remember the latest attempts for
        `submit`."""
        async with self.keeper.pool.connection() as connection:
            self.known_attempts.update(await attempts.latest_attempts(connection, self.chain.chain_id, subjects))
        return {
            each: attempts.wait_reason(self.known_attempts.get(each), self.indexed_block, retry) for each in subjects
        }

    async def ready(self, targets: Mapping[str, str], retry: RetryWaits) -> list[str]:
        """Return the subjects that may be attempted now, and report why the others must wait. `targets` has each
        subject's name in the report."""
        waiting = await self.wait_reasons(list(targets), retry)
        for subject, reason in waiting.items():
            if reason is not None:
                self.report.skip(targets[subject], reason)
        return [subject for subject, reason in waiting.items() if reason is None]

    async def submit(self, request: TransactionRequest, retry: RetryWaits) -> Action | None:
        """Submit a transaction. If one of its subjects must wait, skip it and report the reason."""
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
        say = log.debug if request.kind in FREQUENT_KINDS else log.info
        say(request.detail, action="keeper.submitted", job=self.report.job, kind=request.kind, target=request.target)
        return action

    async def is_confirmed(self, subject: str, what: str) -> bool:
        """Record this read's result. Return whether all reads have had the same result for at least APART_SECONDS.
        Money is refunded only if two reads agree."""
        return self.now - await self.claimed_since(subject, what) >= APART_SECONDS

    async def claimed_since(self, subject: str, what: str) -> int:
        """Record this read's result, except in a dry run. Return the chain time since which all reads, by any keeper,
        have had the same result."""
        async with self.keeper.pool.connection() as connection:
            if not self.dry_run:
                await connection.execute(_RECORD_CLAIM, (self.chain.chain_id, subject, what, self.now))
            since: int | None = await connection.fetch_value(_CLAIMED_SINCE, (self.chain.chain_id, subject, what))
        return self.now if since is None else since

    def measure_due(self, what: str, due_at: Iterable[int], units: int | None = None) -> None:
        """Set the gauges of due work: its amount and the age of the oldest item. The amount is `units`, or the number
        of items if `units` is None.

        Ages are in chain time, so every leader reports the same age. They are measured at the indexed block: during a
        backfill, work that was done in time is not late.
        """
        now = self.now if self.index is None else self.index.time
        ages = [max(0, now - at) for at in due_at]
        metrics.DUE.labels(self.report.job, what).set(len(ages) if units is None else units)
        metrics.DUE_OLDEST.labels(self.report.job, what).set(max(ages, default=0))

    async def lanes_problem(self, group: str) -> str | None:
        """Return why transactions of this group would only pile up, or None if a relayer has a key for them. A lane
        that is merely down is not a reason."""
        if not await self.lanes(group):
            return f"no relayer has a key for the lane group {group} on this chain"
        return None

    async def lanes(self, group: str) -> list[LaneReport]:
        """Return the group's lanes, except lanes whose key was removed."""
        async with self.keeper.pool.connection() as connection:
            report = await lane_report(connection, self.chain.chain_id, group)
        return [lane for lane in report.lanes if not lane.is_gone]

    async def rows(self, query: Executable, values: Mapping[str, Any] | None = None) -> list[Any]:
        async with self.keeper.engine.connect() as connection:
            return list((await connection.execute(query, values)).all())

    async def read(self, call: Call) -> object:
        return await self.chain.client.read(call, self.head)

    async def read_all(
        self, calls: Sequence[Call], accepted_errors: Collection[RpcErrorKind] = (RpcErrorKind.REVERTED,)
    ) -> list[object | RpcError]:
        """Read views at this run's head. If a view fails with an error whose kind is in `accepted_errors`, return the
        error as the view's value. Raise any other error, such as a node failure."""
        answers = await self.chain.client.read_many(calls, self.head)
        for answer in answers:
            if isinstance(answer, RpcError) and answer.kind not in accepted_errors:
                raise answer
        return answers

    async def revert_reason(self, call: Call) -> str | None:
        """Return why the contract would revert this call now, or None if the call would succeed."""
        try:
            await self.chain.client.simulate(call)
        except RpcError as error:
            if error.kind is not RpcErrorKind.REVERTED:
                raise
            return error.message
        return None
