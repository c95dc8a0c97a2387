"""One run of a job: the chain it is about, the clock and the index as they stand, and a way to ask.

A job is `async def job(run: JobRun) -> None`. It reads through `run.chain`, decides with pure functions, and asks with
`run.ask`; in a dry run asking only writes down what would have been asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncEngine

from core.chain import Call, RpcError, RpcErrorKind
from core.chain.finality import final_block
from core.config import ChainName, KeeperSettings, Settings
from core.db.engine import ConnectionPool
from core.log import get_logger
from core.outbox import LaneReport
from core.outbox import report as lane_report
from keeper import errands, metrics, sightings
from keeper.agent.crediting import Backlog
from keeper.chain import IndexState, KeeperChain
from keeper.errands import REFUSED_TIMES, Also, Errand, Payout, RetryWaits, Want
from keeper.report import Action, RunReport
from keeper.sightings import Sighting

log = get_logger(__name__)

SWEEP_RETRY = RetryWaits(after_success_seconds=3600.0)

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
    recalled: dict[str, Errand] = field(default_factory=dict)

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
        """Why nothing new may be listed on the word of the index, or None."""
        return "the index has read nothing of this chain yet" if self.index is None else self.index.trails(self.now)

    def stops(self, problem: str | None) -> bool:
        """Whether there is a problem that keeps the job from everything; then the report says so."""
        if problem is not None:
            self.report.skip("everything", problem)
        return problem is not None

    async def free(self, subjects: Sequence[str], retry: RetryWaits) -> dict[str, str | None]:
        """Per subject why it must wait, or None when an attempt may be made now. Remembers the attempts for `ask`."""
        async with self.keeper.pool.connection() as connection:
            self.recalled.update(await errands.recall(connection, self.chain.chain_id, subjects))
        return {each: errands.waits(self.recalled.get(each), self.indexed_block, retry) for each in subjects}

    async def ask(self, want: Want, retry: RetryWaits, also: Also | None = None) -> Action | None:
        """Asks, unless one of the subjects must wait; then that is why it is skipped. `also`: see errands.ask."""
        missing = [subject for subject in want.subjects if subject not in self.recalled]
        standing = await self.free(missing, retry) if missing else {}
        for subject in want.subjects:
            why = standing.get(subject) or errands.waits(self.recalled.get(subject), self.indexed_block, retry)
            if why is not None:
                self.report.skip(want.target, why)
                return None
        if self.dry_run:
            action = Action(want.kind, want.target, "dry-run", want.detail)
            self.report.actions.append(action)
            return action
        async with self.keeper.pool.connection() as connection:
            intent = await errands.ask(connection, self.chain.chain_id, want, self.recalled, also)
        if intent is None:
            self.report.skip(want.target, "somebody else asked for it a moment ago")
            return None
        action = Action(want.kind, want.target, str(intent.state), want.detail, intent.tx_hash_hex, intent.id)
        self.report.actions.append(action)
        metrics.ACTIONS.labels(self.report.job, want.kind).inc()
        say = log.debug if want.kind in ROUTINE else log.info
        say(want.detail, action="keeper.asked", job=self.report.job, kind=want.kind, target=want.target)
        return action

    async def sweep(self, fees: int, call: Call) -> None:
        """Brings the fees of this chain's contract to the treasury, once there are enough of them."""
        least = self.keeper.how.sweep_from_units
        if fees < least:
            self.report.skip("fees", f"{fees} units are ready, swept from {least} on")
            return
        want = Want(
            kind="sweep",
            subjects=("fees:sweep",),
            target="fees",
            detail=f"bring {fees} units of fees to the treasury",
            call=call,
            priority=-10,
        )
        await self.ask(want, SWEEP_RETRY)

    async def agreed(self, subject: str, what: str) -> bool:
        """Whether a read some time ago said the same of it. Remembers this one, except in a dry run."""
        seen = await self._sighting(subject, what)
        return seen is not None and seen.agreed(what, self.now)

    async def said_since(self, subject: str, what: str) -> int:
        """Since when every read has said this of it, whichever keeper read. Remembers this one, except in a dry run."""
        seen = await self._sighting(subject, what)
        return self.now if seen is None or seen.what != what else seen.since

    async def _sighting(self, subject: str, what: str) -> Sighting | None:
        async with self.keeper.pool.connection() as connection:
            if self.dry_run:
                return await sightings.recall(connection, self.chain.chain_id, subject)
            return await sightings.note(connection, self.chain.chain_id, subject, what, self.now)

    def measure_due(self, what: str, due_at: Iterable[int], units: int | None = None) -> None:
        """Tells how much is due (`units`, else how many things), each since a time of the chain, so that whoever leads
        says the same. Its age is by the block that the index is at: while that reads the past, what was done in time is
        not late."""
        now = self.now if self.index is None else self.index.time
        metrics.measure_due(self.report.job, what, [max(0, now - at) for at in due_at], units)

    def measure_payouts(self, what: str, due: Sequence[Payout]) -> None:
        """Tells what is due, and apart from it to how many owners the token sends nothing: one that it has frozen is no
        reason to think that payouts are late."""
        self.measure_due(what, (each.due_at for each in due if each.failed < REFUSED_TIMES))
        refused = {each.owner for each in due if each.failed >= REFUSED_TIMES}
        metrics.DUE.labels(self.report.job, "owners refused").set(len(refused))

    async def lanes_problem(self, group: str) -> str | None:
        """Why what is asked of this group would only pile up, or None. Unknown lanes are told, not waited for."""
        if not await self.lanes(group):
            return f"no relayer has a key for the lane group {group} on this chain"
        return None

    async def lanes(self, group: str) -> list[LaneReport]:
        """The lanes that serve this group; not those whose key was taken away."""
        async with self.keeper.pool.connection() as connection:
            report = await lane_report(connection, self.chain.chain_id, group)
        return [lane for lane in report.lanes if not lane.is_gone]

    async def rows(self, query: Executable, values: Mapping[str, Any] | None = None) -> list[Any]:
        """What the index holds."""
        async with self.keeper.engine.connect() as connection:
            return list((await connection.execute(query, values)).all())

    async def read(self, call: Call) -> object:
        """A view at this run's head."""
        return await self.chain.client.read(call, self.head)

    async def read_all(self, calls: Sequence[Call]) -> list[object | RpcError]:
        """Views at this run's head; each its value or its own error. A node's failure fails the run."""
        answers = await self.chain.client.read_many(calls, self.head)
        for answer in answers:
            if isinstance(answer, RpcError) and answer.kind is not RpcErrorKind.REVERTED:
                raise answer
        return answers

    async def objection(self, call: Call) -> str | None:
        """Why the contract would refuse this call now, or None."""
        try:
            await self.chain.client.simulate(call)
        except RpcError as error:
            if error.kind is not RpcErrorKind.REVERTED:
                raise
            return error.message
        return None
