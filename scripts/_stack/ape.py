"""ape on a local stack: the commands an operator would type, against our own data folder and with a local key."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from eth_account import Account

from core.hexadecimal import bytes_of
from core.paths import REPOSITORY
from scripts._local.process import die_with_parent
from scripts._stack import wallets
from scripts._stack.options import StackError
from scripts._vpm import bootstrap

ACCOUNT = "vpm-local-deployer"
PASSPHRASE = "public-key-of-a-local-stack"  # noqa: S105 (protects a key anybody can derive)
_MAX_ANSWER = 2**24


class Ape:
    """A process that has imported ape (or is about to), and what runs its commands one after the other."""

    def __init__(self, host: Process) -> None:
        self._host = host
        self._turn = asyncio.Lock()

    async def run(self, arguments: Sequence[str]) -> str:
        """What the command printed; its last words become the error when it fails. Whoever runs one is `alone`."""
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        async with self._turn:
            self._host.stdin.write(json.dumps(list(arguments)).encode() + b"\n")
            answer = await self._host.stdout.readline()
            try:
                outcome = json.loads(answer)
            except ValueError:  # it could not even begin
                outcome = {"code": 1, "printed": (answer + await self._host.stdout.read()).decode(errors="replace")}
        if outcome["code"] != 0:
            tail = "".join(f"\n    | {line}" for line in outcome["printed"].splitlines()[-15:])
            raise StackError(f"ape {' '.join(arguments[:2])} failed:{tail}")
        return str(outcome["printed"])


@contextlib.asynccontextmanager
async def ape(folder: Path, env: Mapping[str, str] | None = None) -> AsyncIterator[Ape]:
    """`folder`: where ape keeps its data. It is imported at once, while others go on."""
    # ape treats a project inside the temporary folder differently; with one of our own it never is.
    temporary = REPOSITORY / ".vpm" / "env" / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    settings = {"APE_DATA_FOLDER": str(folder), "TMPDIR": str(temporary), "PYTHONPATH": str(REPOSITORY)}
    host = await asyncio.create_subprocess_exec(
        *(str(bootstrap.APE_VENV / "bin" / "python"), "-m", "scripts._stack.ape_host"),
        cwd=REPOSITORY,
        env={**bootstrap.environment(), **settings, f"APE_ACCOUNTS_{ACCOUNT}_PASSPHRASE": PASSPHRASE, **(env or {})},
        stdin=PIPE,
        stdout=PIPE,
        stderr=STDOUT,
        limit=_MAX_ANSWER,
        start_new_session=True,  # it and the command that runs end together
        preexec_fn=die_with_parent(),
    )
    try:
        yield Ape(host)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(host.pid, signal.SIGKILL)
        await host.wait()


@contextlib.asynccontextmanager
async def alone() -> AsyncIterator[None]:
    """Two ape processes would write the same build folder and package cache: one at a time in a checkout."""
    with (REPOSITORY / ".vpm" / "env" / "ape.lock").open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.1)
        yield


def import_account(folder: Path, alias: str, wallet: wallets.Wallet) -> None:
    """Give ape a local key as a keystore, as an operator would give it theirs."""
    path = folder / "accounts" / f"{alias}.json"
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Few iterations: this keystore hides a key that is public anyway, and every script start decrypts it.
    keystore = Account.encrypt(bytes_of(wallet.private_key), PASSPHRASE, kdf="pbkdf2", iterations=1_000)
    path.write_text(json.dumps({**keystore, "address": wallet.address.removeprefix("0x").lower()}))
