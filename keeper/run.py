"""One run of a job: the chain it is about, the clock and the index as they stand, and a way to ask.

A job is `async def job(run: JobRun) -> None`. It reads through `run.chain`, decides with pure functions, and asks with
`run.ask`; in a dry run asking only writes down what would have been asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from sqlalchemy import Executable, select
from sqlalchemy.ext.asyncio import AsyncEngine

from core.chain import Call, ChainClient, Contract, RpcError, RpcErrorKind
from core.chain.finality import final_block
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

APART_SECONDS = 60
"""Of the chain's clock, between the first and the last of the reads that agree."""

_SAID_SINCE = b"SELECT since FROM keeper_confirmation WHERE chain_id = %s AND subject = %s AND what = %s"
# A read that says something new starts the wait afresh; one that says the same keeps its start, unless time went back.
_NOTE_READ = b"""
INSERT INTO keeper_confirmation AS c (chain_id, subject, what, since) VALUES (%s, %s, %s, %s)
ON CONFLICT (chain_id, subject) DO UPDATE SET what = excluded.what, since = excluded.since
WHERE c.what <> excluded.what OR c.since > excluded.since
"""

INDEX_LAG_SECONDS = 60
"""How far, on the chain's clock, the index may trail the head before nothing new is listed on its word."""


@dataclass(frozen=True)
class KeeperChain:
    """One chain and what a job does on it. `single_nodes`: clients of one URL each, where two or more are
    configured."""

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
        """Return one of ours by its name in the deployment file; `others` name contracts whose errors may come through
        it."""
        return Contract(self.deployment.contract(name).address, abi(name), *(abi(each) for each in others))

    def at(self, address: str, interface: str) -> Contract:
        return Contract(address, abi(interface))


@dataclass(frozen=True, slots=True)
class IndexState:
    """How far the index is. `number` and `time` are of its last block, `l1_number` what contracts saw there;
    `finalized`: the node's finalized block, None where it has no such notion."""

    number: int
    time: int
    l1_number: int
    state: str
    finalized: int | None = None

    def trails(self, now: int) -> str | None:
        """Return why it cannot be taken for the present state of the chain, or None when it can."""
        if self.state != "tail":
            return f"the index is in state {self.state}"
        behind = now - self.time
        return f"the index trails the chain by {behind} s" if behind > INDEX_LAG_SECONDS else None


async def index_state(engine: AsyncEngine, chain_id: int) -> IndexState | None:
    """Return the state of a chain's index; None before the first block is indexed."""
    columns = chain_cursor.c
    query = select(columns.number, columns.block_time, columns.l1_block_number, columns.state, columns.finalized_number)
    async with engine.connect() as connection:
        row = (await connection.execute(query.where(columns.chain_id == chain_id))).first()
    if row is None or row.block_time is None:
        return None
    return IndexState(row.number, row.block_time, row.l1_block_number or row.number, row.state, row.finalized_number)


ROUTINE = ("price", "observe", "record")
"""Asked for all the time: they would drown the rest of the log."""


@dataclass(frozen=True)
class Keeper:
    """What every job of this process shares."""

    settings: Settings
    how: KeeperSettings
    pool: ConnectionPool
    engine: AsyncEngine
    http: aiohttp.ClientSession
    chains: Mapping[ChainName, KeeperChain]
    backlog: Backlog = field(default_factory=Backlog)


@dataclass
class JobRun:
    """One run of one job on one chain. `now` is the chain's clock, `head` its newest block; `head_late`: why that is
    no block of the present, or None."""

    keeper: Keeper
    chain: KeeperChain
    report: RunReport
    now: int
    head: int
    index: IndexState | None
    head_late: str | None = None
    dry_run: bool = False
    recalled: dict[str, Attempt] = field(default_factory=dict)

    @property
    def indexed_block(self) -> int:
        return -1 if self.index is None else self.index.number

    @property
    def final_block(self) -> int:
        """The newest indexed block that nothing undoes; negative before there is one."""
        if self.index is None:
            return -1
        depth = self.keeper.settings.chain(self.chain.name).finality_blocks
        return final_block(self.index.number, self.index.finalized, depth)

    def index_problem(self) -> str | None:
        """Return why nothing new may be listed on the word of the index, or None."""
        return "the index has read nothing of this chain yet" if self.index is None else self.index.trails(self.now)

    def stops(self, problem: str | None) -> bool:
        """Return whether there is a problem that keeps the job from everything; then the report says so."""
        if problem is not None:
            self.report.skip("everything", problem)
        return problem is not None

    async def free(self, subjects: Sequence[str], retry: RetryWaits) -> dict[str, str | None]:
        """Per subject why it must wait, or None when an attempt may be made now. Remembers the attempts for `ask`."""
        async with self.keeper.pool.connection() as connection:
            self.recalled.update(await attempts.recall(connection, self.chain.chain_id, subjects))
        return {each: attempts.waits(self.recalled.get(each), self.indexed_block, retry) for each in subjects}

    async def ready(self, targets: Mapping[str, str], retry: RetryWaits) -> list[str]:
        """Return the subjects that need not wait; the report says why the others do. `targets`: their names in it."""
        waiting = await self.free(list(targets), retry)
        for subject, reason in waiting.items():
            if reason is not None:
                self.report.skip(targets[subject], reason)
        return [subject for subject, reason in waiting.items() if reason is None]

    async def ask(self, request: TransactionRequest, retry: RetryWaits) -> Action | None:
        """Ask, unless one of the subjects must wait; then that is why it is skipped."""
        missing = [subject for subject in request.subjects if subject not in self.recalled]
        if missing:
            await self.free(missing, retry)
        for subject in request.subjects:
            why = attempts.waits(self.recalled.get(subject), self.indexed_block, retry)
            if why is not None:
                self.report.skip(request.target, why)
                return None
        if self.dry_run:
            action = Action(request.kind, request.target, "dry-run", request.detail)
            self.report.actions.append(action)
            return action
        async with self.keeper.pool.connection() as connection:
            intent = await attempts.ask(connection, self.chain.chain_id, request, self.recalled)
        if intent is None:
            self.report.skip(request.target, "another keeper asked for it a moment ago")
            return None
        action = Action(request.kind, request.target, str(intent.state), request.detail, intent.tx_hash_hex, intent.id)
        self.report.actions.append(action)
        metrics.ACTIONS.labels(self.report.job, request.kind).inc()
        say = log.debug if request.kind in ROUTINE else log.info
        say(request.detail, action="keeper.asked", job=self.report.job, kind=request.kind, target=request.target)
        return action

    async def agreed(self, subject: str, what: str) -> bool:
        """Return whether a read some time ago, and every one since, said the same of it: money is only given back when
        two agree. Remembers this one, except in a dry run."""
        return self.now - await self.said_since(subject, what) >= APART_SECONDS

    async def said_since(self, subject: str, what: str) -> int:
        """Return since when every read has said this of it, whichever keeper read. Remembers this one, except in a dry
        run."""
        async with self.keeper.pool.connection() as connection:
            if not self.dry_run:
                await connection.execute(_NOTE_READ, (self.chain.chain_id, subject, what, self.now))
            since: int | None = await connection.fetch_value(_SAID_SINCE, (self.chain.chain_id, subject, what))
        return self.now if since is None else since

    def measure_due(self, what: str, due_at: Iterable[int], units: int | None = None) -> None:
        """Measure how much is due (`units`, else how many things), each since a time of the chain, so that each
        leader says the same. Its age is by the block that the index is at: while that reads the past, what was done in
        time is not late."""
        now = self.now if self.index is None else self.index.time
        ages = [max(0, now - at) for at in due_at]
        metrics.DUE.labels(self.report.job, what).set(len(ages) if units is None else units)
        metrics.DUE_OLDEST.labels(self.report.job, what).set(max(ages, default=0))

    async def lanes_problem(self, group: str) -> str | None:
        """Return why what is asked of this group would only pile up, or None. Lanes that are only
        down are waited for."""
        if not await self.lanes(group):
            return f"no relayer has a key for the lane group {group} on this chain"
        return None

    async def lanes(self, group: str) -> list[LaneReport]:
        """Return the lanes that serve this group; not those whose key was taken away."""
        async with self.keeper.pool.connection() as connection:
            report = await lane_report(connection, self.chain.chain_id, group)
        return [lane for lane in report.lanes if not lane.is_gone]

    async def rows(self, query: Executable, values: Mapping[str, Any] | None = None) -> list[Any]:
        """Return what the index holds."""
        async with self.keeper.engine.connect() as connection:
            return list((await connection.execute(query, values)).all())

    async def read(self, call: Call) -> object:
        """Read a view at this run's head."""
        return await self.chain.client.read(call, self.head)

    async def read_all(
        self, calls: Sequence[Call], answers_too: Collection[RpcErrorKind] = (RpcErrorKind.REVERTED,)
    ) -> list[object | RpcError]:
        """Read views at this run's head; each gives its value, or an error that counts as an answer. Any other error,
        such as a node's failure, fails the run."""
        answers = await self.chain.client.read_many(calls, self.head)
        for answer in answers:
            if isinstance(answer, RpcError) and answer.kind not in answers_too:
                raise answer
        return answers

    async def objection(self, call: Call) -> str | None:
        """Return why the contract would refuse this call now, or None."""
        try:
            await self.chain.client.simulate(call)
        except RpcError as error:
            if error.kind is not RpcErrorKind.REVERTED:
                raise
            return error.message
        return None
