"""Programs of ours that a test runs. Where that is the same, they are forked from a process that has imported them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from scripts._local.forking import ForkServer, serving
from scripts._local.process import Program, spawn
from scripts._stack import ape

DAEMONS = {
    "api": ["api.app", "api.context", "api.__main__"],
    "indexer": ["indexer.cli"],
    "keeper": ["keeper.__main__"],
    "relayer": ["relayer.service"],
}
# Not ape itself, which looks for its folders while it is imported: what takes it two seconds, and its provider of test
# chains, which any provider's first use imports, another.
APE = [
    *("eip712", "eth.chains.base", "eth_account", "eth_tester", "ethpm_types", "evm_trace", "pandas"),
    *("pydantic_settings", "rich.console", "solcx", "tqdm", "web3"),
]


@contextlib.contextmanager
def forked() -> Iterator[None]:
    with serving(lambda: ForkServer(DAEMONS)), serving(lambda: ForkServer({ape.COMMAND[2]: APE}, ape.COMMAND[0])):
        yield


def popen(argv: Sequence[str], env: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]) -> Program:
    with Path(os.devnull).open("rb") as nothing:
        return spawn(argv, env, (nothing, stdout, stderr))


def run(argv: Sequence[str], env: Mapping[str, str], timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with its output as text. Kill it when its time is over."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = popen(argv, env, stdout, stderr)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        printed = [_whole(each) for each in (stdout, stderr)]
    return subprocess.CompletedProcess(argv, code, *printed)


def children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def family(pid: int) -> list[int]:
    """Return a process and all its descendants, parents first."""
    found = [pid]
    for each in found:
        found += children(each)
    return found


def _whole(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
