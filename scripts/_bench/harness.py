"""The harness of all benchmarks: prints tables, starts programs, and measures time and memory. A benchmark is a module
with a function `measure(folder, quick=...)` that returns the rows of its table."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import psycopg

from core.chain import ChainProvider
from core.db.migrate import migrate
from scripts._local.anvil import AnvilOptions, start_anvil
from scripts._local.ports import free_port
from scripts._local.postgres import PostgresServer, prepare_postgres, start_postgres
from scripts._local.process import RunningProcess, SpawnPlan, start_process, wait_until
from tests.support.programs import family

NAMES = ("api", "cup", "gas", "growth", "index", "relay", "stack", "trade")


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of a benchmark's table: our figure, the baseline's figure, and a limit for our figure or for the ratio of
    the two."""

    what: str
    ours: float
    bare: float | None = None
    least: float | None = None
    most: float | None = None
    least_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.bare if self.bare else None

    @property
    def missed(self) -> bool:
        return _outside(self.ours, self.least, self.most) or _outside(self.ratio, self.least_ratio, None)

    def target(self) -> str:
        limits = (("at least", self.least), ("at most", self.most), ("ratio at least", self.least_ratio))
        return ", ".join(f"{word} {limit:,g}" for word, limit in limits if limit is not None)


def _outside(value: float | None, least: float | None, most: float | None) -> bool:
    return value is not None and ((least is not None and value < least) or (most is not None and value > most))


def run(name: str, *, quick: bool) -> int:
    """Run a benchmark and print its table. Return 1 if a target is missed, else 0."""
    measure = import_module(f"scripts._bench.{name}").measure
    with tempfile.TemporaryDirectory(prefix=f"vpm-bench-{name}-") as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - PostgreSQL may run as another user
        return _report(name, measure(Path(folder), quick=quick))


def _report(name: str, rows: Sequence[Figure]) -> int:
    width = max(len(row.what) for row in rows) + 2
    print(f"{name:<{width}}{'baseline':>12}{'ours':>12}{'ratio':>8}  target")
    for row in rows:
        bare, ours = ("" if value is None else f"{value:,.{_digits(value)}f}" for value in (row.bare, row.ours))
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        line = f"{row.what:<{width}}{bare:>12}{ours:>12}{ratio:>8}  {row.target()}"
        print(f"{line}{'  MISSED' if row.missed else ''}".rstrip(), flush=True)
    return 1 if any(row.missed for row in rows) else 0


def _digits(value: float) -> int:
    return 0 if abs(value) >= 1_000 else 1


# ---------------------------------------------------------------- programs


@contextmanager
def stopping(running: RunningProcess) -> Iterator[RunningProcess]:
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def started(
    plan: SpawnPlan, log: Path, ready: Callable[[], bool], seconds: float, what: str
) -> Iterator[RunningProcess]:
    with stopping(start_process(plan, log)) as running:
        wait_until(ready, running, seconds, what)
        yield running


@contextmanager
def postgres(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    server = prepare_postgres(folder / "postgres", free_port(), settings=settings)
    with stopping(start_postgres(server, folder / "postgres.log")):
        yield server


@contextmanager
def fresh_database(server: PostgresServer) -> Iterator[str]:
    name = f"bench_{secrets.token_hex(4)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        migrate(server.url(name))
        yield server.url(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def database(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    with postgres(folder, settings) as server, fresh_database(server) as url:
        yield url


@asynccontextmanager
async def local_chain(folder: Path, options: AnvilOptions) -> AsyncIterator[tuple[str, ChainProvider]]:
    with stopping(start_anvil(options, folder / "anvil.log")):
        async with ChainProvider((options.url,), chain_id=options.chain_id) as rpc:
            yield options.url, rpc


def fresh_process() -> ProcessPoolExecutor:
    """Return an executor that runs one function in a new Python process with its own memory and event loop."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


# ---------------------------------------------------------------- measurements


@contextmanager
def timed(times: list[float]) -> Iterator[None]:
    """Measure how long the `with` block takes, and append the milliseconds to `times`."""
    began = time.perf_counter()
    yield
    times.append((time.perf_counter() - began) * 1_000)


def memory_mb(root: int) -> float:
    """Return the proportional memory (PSS) of a process and all its descendants, in MB."""
    total = 0.0
    for pid in family(root):
        with suppress(OSError):
            total += _megabytes(pid, "smaps_rollup", "Pss:")
    return total


def resident_mb(pid: int) -> float:
    return _megabytes(pid, "status", "VmRSS:")


def peak_mb(pid: int) -> float:
    return _megabytes(pid, "status", "VmHWM:")


def _megabytes(pid: int, file: str, label: str) -> float:
    (row,) = [line for line in Path(f"/proc/{pid}/{file}").read_text().splitlines() if line.startswith(label)]
    return int(row.split()[1]) / 1024
