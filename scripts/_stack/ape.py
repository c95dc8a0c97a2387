"""Runs ape commands on a local stack as an operator would, but with a separate data folder and a local key."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

from core.paths import REPOSITORY
from scripts._local.forking import ForkServer, serving
from scripts._local.process import spawn
from scripts._stack.state import StackError
from scripts._vpm import bootstrap

ACCOUNT = "vpm-local-deployer"
PASSPHRASE = "public-key-of-a-local-stack"  # noqa: S105 (protects a key anyone can derive)
COMMAND = (str(bootstrap.APE_VENV / "bin" / "python"), "-m", "scripts._stack.ape_command")
IMPORTS = (
    "scripts._stack.ape_command",
    "ape.managers.chain",
    "ape_node.provider",
    "ape_test.provider",
    "scripts._deploy.base",
    "scripts._deploy.feeds",
    "scripts._deploy.pools",
    "scripts._deploy.stock",
)
"""Modules that ape's commands and our scripts import."""


class Ape:
    """A runner of ape commands. The caller must hold `ape_lock`."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    async def run(self, arguments: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        """Run an ape command and return its output. Raise StackError, with the end of the output, if the command fails.
        `env` contains additional variables."""
        with tempfile.TemporaryFile() as nothing, tempfile.TemporaryFile() as output:
            files = (nothing, output, output)
            command = await asyncio.to_thread(spawn, (*COMMAND, *arguments), {**self._env, **(env or {})}, files)
            try:
                code = await asyncio.to_thread(command.wait)
            finally:
                command.kill()
            output.seek(0)
            printed = output.read().decode(errors="replace")
        if code != 0:
            tail = "".join(f"\n    | {line}" for line in printed.splitlines()[-15:])
            raise StackError(f"ape {' '.join(arguments[:2])} failed:{tail}")
        return printed


@contextlib.contextmanager
def ape(folder: Path, *, eager: bool = True) -> Iterator[Ape]:
    """Provide ape with its data in `folder`. If `eager`, immediately start importing ape in the background."""
    # ape treats a project inside the temporary folder differently, so it gets a temporary folder inside the checkout.
    temporary = REPOSITORY / ".vpm" / "env" / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    settings = {"APE_DATA_FOLDER": str(folder), "TMPDIR": str(temporary)}
    env = {**bootstrap.environment(), **settings, f"APE_ACCOUNTS_{ACCOUNT}_PASSPHRASE": PASSPHRASE}
    with serving(lambda: ForkServer({COMMAND[2]: IMPORTS}, COMMAND[0], env, eager=eager)):
        yield Ape(env)


@contextlib.asynccontextmanager
async def ape_lock() -> AsyncIterator[None]:
    """Hold ape's lock, because two ape processes in one checkout would write the same files."""
    with (REPOSITORY / ".vpm" / "env" / "ape.lock").open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.1)
        yield
