"""Several API processes on one port: one that dies is replaced, and metrics count those that live."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.paths import REPOSITORY
from scripts._local.ports import free_port
from scripts._local.process import SpawnPlan, start_process
from tests.support.hanging import family
from tests.support.prometheus import samples
from tests.support.service import Service, serving
from tests.waiting import wait

WORKERS = 2


class WorkerService(Service[None]):
    """The API with several workers."""

    def start_workers(self) -> None:
        env = {**self.env, "VPM_READY_FILE": str(self._ready_file("api"))}
        command = (sys.executable, "-m", "api", "--workers", str(WORKERS))
        plan = SpawnPlan("api", command, env=env, cwd=str(REPOSITORY))
        self.running["api"] = start_process(plan, self.folder / "api.log")
        wait(self._ready_file("api").exists, lambda: self.log("api"))

    def value(self, name: str) -> float | None:
        found = list(samples(self.metrics("api"), [name]))
        return found[0]["value"] if found else None


@pytest.fixture
def service(tmp_path: Path) -> Iterator[WorkerService]:
    nowhere = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    (numbers := tmp_path / "numbers").mkdir()
    env = {"PROMETHEUS_MULTIPROC_DIR": str(numbers)}
    with serving(WorkerService, None, nowhere, REPOSITORY / "deployments", tmp_path, env) as made:
        yield made


def _workers(service: WorkerService) -> list[int]:
    found = []
    for pid in family(service.running["api"].pid):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--worker" in command:
            found.append(pid)
    return found


def test_a_worker_that_died_counts_no_more_and_the_one_in_its_place_serves(service: WorkerService) -> None:
    service.start_workers()
    started = service.value("process_start_time_seconds")
    assert started is not None, "an API that starts again and again is told by this"
    wait(lambda: service.value("vpm_database_silent") == WORKERS, lambda: f"both workers\n{service.log('api')}")
    before = _workers(service)
    assert len(before) == WORKERS
    os.kill(before[0], signal.SIGKILL)
    wait(lambda: service.value("vpm_api_worker_restarts_total") == 1, "the worker started again")
    numbers = Path(service.env["PROMETHEUS_MULTIPROC_DIR"])
    assert list(numbers.glob(f"gauge_live*_{before[1]}.db")), "the other one counts"
    assert not list(numbers.glob(f"gauge_live*_{before[0]}.db"))
    assert list(numbers.glob(f"counter_{before[0]}.db")), "what it counted stays"

    os.kill(before[1], signal.SIGKILL)
    wait(lambda: not set(before) & set(_workers(service)), "the other one ended")

    def answers() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{service.url}/openapi.json") as answer:
            return bool(answer.status == 200)
        return False

    wait(answers, lambda: f"an answer of the worker started again\n{service.log('api')}")
