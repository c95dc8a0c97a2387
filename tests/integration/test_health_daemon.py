"""How a daemon starts, crashes and stops, as real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import EXIT_CONFIG, EXIT_CRASH, EXIT_UNAVAILABLE
from core.paths import REPOSITORY
from tests.waiting import PATIENCE, wait

HEADER = """
import asyncio, sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from core.service.daemon import Daemon, run_daemon
from core.errors import DatabaseUnreachable

async def forever():
    try:
        await asyncio.Event().wait()
    finally:
        print("worker finished", flush=True)

async def stubborn():
    try:
        await asyncio.Event().wait()
    finally:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("cancelled again", flush=True)
            raise

async def fail(after=0.2):
    await asyncio.sleep(after)
    raise ValueError("a fault in the work")

async def unreachable():
    raise DatabaseUnreachable("The database is gone.", hint="Start it.")

async def ends():
    await asyncio.sleep(0.2)

@asynccontextmanager
async def setup(daemon: Daemon) -> AsyncIterator[None]:
    try:
        {body}
        yield
    finally:
        print("resources closed", flush=True)

sys.exit(run_daemon("probe", setup, metrics_port=lambda settings: 0))
"""


class Probe:
    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output

    @property
    def out(self) -> str:
        return self._output.read_text()

    def line(self, action: str) -> dict[str, Any] | None:
        found = (json.loads(line) for line in self.out.splitlines() if line.startswith("{") and line.endswith("}"))
        return next((line for line in found if line["action"] == action), None)

    def until(self, action: str) -> dict[str, Any]:
        return wait(lambda: self.line(action), lambda: f"{action} in\n{self.out}")

    def end(self) -> int:
        return self.process.wait(PATIENCE)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[..., Probe]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(body: str, **env: str) -> Probe:
        given = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "DATABASE_URL": "postgresql://u:sesame-open@127.0.0.1:1/x",
            "VPM_STOP_GRACE_SECONDS": "300",  # longer than a busy machine takes for what does end
        }
        output = tmp_path / f"out-{len(started)}"
        with output.open("wb") as file:
            command = [sys.executable, "-W", "error", "-c", HEADER.replace("{body}", body)]
            process = subprocess.Popen(command, env=given | env, stdout=file, stderr=subprocess.STDOUT)
        started.append(process)
        return Probe(process, output)

    yield start
    for process in started:
        process.kill()
        process.wait()


StartDaemon = Callable[..., Probe]
WORKER = 'daemon.spawn("worker", forever())'
STUBBORN = 'daemon.spawn("stubborn", stubborn())'


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_order(daemon: StartDaemon, number: signal.Signals) -> None:
    probe = daemon(WORKER)
    probe.until("daemon.ready")
    probe.process.send_signal(number)
    assert probe.end() == 0
    assert probe.out.index("worker finished") < probe.out.index("resources closed"), "resources outlive their users"
    assert probe.until("daemon.stopped")["because"] == number.name


@pytest.mark.thorough
def test_a_task_that_does_not_clean_up_is_cancelled_again_after_the_grace(daemon: StartDaemon) -> None:
    probe = daemon(STUBBORN, VPM_STOP_GRACE_SECONDS="1")
    probe.until("daemon.ready")
    started = time.monotonic()
    probe.process.terminate()
    assert probe.end() == 0
    assert time.monotonic() - started > 0.9
    assert probe.until("daemon.cancelled")["tasks"] == ["stubborn"]
    assert probe.out.index("cancelled again") < probe.out.index("resources closed")


@pytest.mark.thorough
def test_a_second_signal_does_not_wait(daemon: StartDaemon) -> None:
    probe = daemon(f"{WORKER}; {STUBBORN}")
    probe.until("daemon.ready")
    probe.process.terminate()
    wait(lambda: "worker finished" in probe.out)  # two signals that come before either is seen are one
    time.sleep(0.5)
    assert probe.process.poll() is None
    probe.process.terminate()
    assert probe.end() == 0


@pytest.mark.parametrize(
    ("body", "code", "part", "message"),
    [
        (f'{WORKER}; daemon.spawn("tail", fail())', EXIT_CRASH, "tail", "ValueError: a fault in the work"),
        ('daemon.spawn("tail", ends())', EXIT_CRASH, "tail", "the task ended before the daemon was stopped"),
        ('daemon.spawn("tail", fail()); await asyncio.sleep(60)', EXIT_CRASH, "tail", "a fault in the work"),
        ("raise ValueError('no luck')", EXIT_CRASH, "start", "no luck"),
        ("await unreachable()", EXIT_UNAVAILABLE, "start", "The database is gone."),
        # It was not requested, so it is no orderly end.
        ("raise asyncio.CancelledError('from within')", EXIT_CRASH, "start", "from within"),
    ],
)
@pytest.mark.thorough
def test_a_crash_ends_the_daemon_and_names_the_part(
    daemon: StartDaemon, body: str, code: int, part: str, message: str
) -> None:
    probe = daemon(body)
    assert probe.end() == code
    crashed = probe.until("daemon.crashed")
    assert crashed["part"] == part
    assert message in crashed["message"]
    assert code == EXIT_CRASH or "traceback" not in crashed, "a known error is a sentence"
    assert "resources closed" in probe.out


def test_a_start_that_hangs_can_be_stopped(daemon: StartDaemon) -> None:
    probe = daemon(f'{WORKER}; print("starting", flush=True); await asyncio.sleep(60)')
    wait(lambda: "starting" in probe.out)
    probe.process.terminate()
    assert probe.end() == 0
    assert "resources closed" in probe.out
    assert probe.line("daemon.ready") is None


def test_wrong_settings_are_one_line_and_exit_78(daemon: StartDaemon) -> None:
    probe = daemon("pass", DATABASE_URL="", VPM_PORT="x")
    assert probe.end() == EXIT_CONFIG
    assert len(probe.out.strip().splitlines()) == 1
    assert probe.out.startswith("probe: ")
    assert "DATABASE_URL is not set" in probe.out
    assert "VPM_PORT" in probe.out


def test_a_misspelt_variable_is_warned_about_and_no_secret_is_shown(daemon: StartDaemon) -> None:
    probe = daemon("raise ValueError(daemon.settings.database_url.get_secret_value())", VPM_TRADING_PAUSE="1")
    assert probe.end() == EXIT_CRASH
    assert "VPM_TRADING_PAUSED" in probe.until("config.unknown_variable")["message"]
    assert "sesame-open" not in probe.out


def test_readiness_is_shown_in_a_file_and_over_http(daemon: StartDaemon, tmp_path: Path) -> None:
    file = tmp_path / "ready" / "ready.json"
    file.parent.mkdir()
    probe = daemon(WORKER, VPM_READY_FILE=str(file))
    probe.until("daemon.ready")
    ready = json.loads(file.read_text())
    assert (ready["daemon"], ready["pid"]) == ("probe", probe.process.pid)
    with urllib.request.urlopen(ready["metrics"].replace("/metrics", "/ready"), timeout=60) as response:
        assert response.status == 200
    assert [path.name for path in file.parent.iterdir()] == ["ready.json"]
