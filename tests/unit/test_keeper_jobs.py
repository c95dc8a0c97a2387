"""When the leader's jobs run, even if the machine's clock jumps."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta, tzinfo
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
from prometheus_client import REGISTRY

from core.service.cancelling import cancel_and_wait
from keeper import metrics
from keeper.jobs import Job, Runner
from keeper.run import JobRun, RunReport
from keeper.service import KeeperService

PERIOD = 0.02
RUNS = 4
"""Seen of each job before something happens, and again after it."""


class Wall(datetime):
    ahead = timedelta(0)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp((datetime.now(UTC) + cls.ahead).timestamp(), tz)


class Runs:
    """A runner that counts, and whose runs of `stuck` end when they are cancelled."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.news = asyncio.Event()

    def unavailable_reason(self, job: Job) -> str | None:
        return None

    def period(self, job: Job) -> float:
        return PERIOD

    async def run(self, job: Job) -> RunReport:
        self.begun.append(job.name)
        self.news.set()
        if job.name == "broken":
            raise RuntimeError("a bug")
        try:
            await asyncio.sleep(3600 if job.name == "stuck" else 0)
        finally:
            self.ended.append(job.name)
        return RunReport(job.name, datetime.now(UTC))

    async def more(self, name: str, times: int = RUNS) -> None:
        enough = self.begun.count(name) + times
        async with asyncio.timeout(10):
            while self.begun.count(name) < enough:
                self.news.clear()
                await self.news.wait()


async def _nothing(_: JobRun) -> None: ...


def jobs(*names: str) -> tuple[Job, ...]:
    return tuple(Job(name, "", "base", _nothing, lambda _: PERIOD) for name in names)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> tuple[KeeperService, Runs]:
    async def nobody_asks(_: KeeperService) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(KeeperService, "_serve_requests", nobody_asks)
    monkeypatch.setattr("keeper.jobs.datetime", Wall)
    for module in ("keeper.service", "apscheduler.schedulers.base", "apscheduler.triggers.interval"):
        monkeypatch.setattr(f"{module}.datetime", Wall)
    monkeypatch.setattr("keeper.service.CLOCK_CHECK_SECONDS", PERIOD)
    monkeypatch.setattr(Wall, "ahead", timedelta(hours=1))
    # Every clock of the machine that the loop could go by.
    clocks = SimpleNamespace(monotonic=time.monotonic, time=lambda: time.time() + Wall.ahead.total_seconds())
    monkeypatch.setattr("keeper.service.time", clocks)
    keeper = SimpleNamespace(how=None, memory={}, chains={"base": SimpleNamespace(is_local=False)})
    made, runs = KeeperService(cast(Any, keeper), "postgresql://nowhere"), Runs()
    made.runner = cast(Any, runs)
    return made, runs


async def test_jobs_run_on_after_the_clock_is_set_back(
    service: tuple[KeeperService, Runs], monkeypatch: pytest.MonkeyPatch
) -> None:
    leading, runs = service
    monkeypatch.setattr("keeper.service.JOBS", jobs("settle", "pay"))
    work = asyncio.create_task(leading._lead())
    await runs.more("settle")
    Wall.ahead = timedelta(0)
    await asyncio.gather(runs.more("settle"), runs.more("pay"))
    await cancel_and_wait(work)


async def test_a_long_run_delays_no_other_job_and_ends_with_the_leadership(
    service: tuple[KeeperService, Runs], monkeypatch: pytest.MonkeyPatch
) -> None:
    leading, runs = service
    monkeypatch.setattr("keeper.service.JOBS", jobs("stuck", "pay"))
    leading._keeper.memory["payments"] = "due"
    work = asyncio.create_task(leading._lead())
    await runs.more("stuck", 1)
    await runs.more("pay")
    assert (runs.begun.count("stuck"), runs.ended.count("stuck")) == (1, 0)
    await cancel_and_wait(work)
    assert runs.ended.count("stuck") == 1
    assert leading._keeper.memory == {}, "what another keeper leaves is looked at anew"
    after = len(runs.begun)
    await asyncio.sleep(3 * PERIOD)
    assert len(runs.begun) == after


async def test_a_crashed_job_ends_the_leadership(
    service: tuple[KeeperService, Runs], monkeypatch: pytest.MonkeyPatch
) -> None:
    leading, _ = service
    monkeypatch.setattr("keeper.service.JOBS", jobs("broken", "pay"))
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match="a bug"):
            await leading._lead()


def test_the_age_of_a_run_goes_by_a_monotonic_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """An alarm that went by the time of day saw nothing for as long as it was set back."""
    now = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    metrics.record_success("a job")
    now += 1_800
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert REGISTRY.get_sample_value("vpm_keeper_success_age_seconds", {"job": "a job"}) == 1_800


async def test_jobs_that_start_together_share_one_read_of_the_head() -> None:
    reads: list[int] = []

    async def head() -> int:
        reads.append(len(reads))
        await asyncio.sleep(0.01)
        return reads[-1]

    runner, chain = Runner(cast(Any, None)), cast(Any, SimpleNamespace(name="base", client=SimpleNamespace(head=head)))
    assert await asyncio.gather(*(runner._head(chain) for _ in range(3))) == [0, 0, 0]
    assert reads == [0]
