"""Compiling with ape when the sources changed, and running our ape scripts against a local chain."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from eth_account import Account

from scripts._stack import wallets
from scripts._stack.options import StackError
from scripts._vpm import bootstrap

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / ".build" / "__local__.json"
STAMP = ROOT / ".vpm" / "env" / "contracts.stamp"
ACCOUNT = "vpm-local-deployer"
PASSPHRASE = "public-key-of-a-local-stack"  # noqa: S105 (protects a key anybody can derive)


def sources_hash() -> str:
    digest = hashlib.sha256((ROOT / "ape-config.yaml").read_bytes() + (ROOT / "package-lock.json").read_bytes())
    for path in sorted((ROOT / "contracts").rglob("*.sol")):
        if ".cache" not in path.parts:
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def compiled() -> bool:
    return MANIFEST.exists() and STAMP.exists() and STAMP.read_text() == sources_hash()


async def compile_all() -> None:
    """Compile, unless another stack of this checkout did so while we waited for it."""
    async with alone():
        if compiled():
            return
        sources = sources_hash()
        await _run_ape(["compile", "--force"], ROOT / ".vpm" / "env" / "ape")
        STAMP.write_text(sources)


async def run_ape(arguments: Sequence[str], ape_folder: Path, env: Mapping[str, str] | None = None) -> str:
    """Run ape in the checkout; its last words become the error when it fails."""
    async with alone():
        return await _run_ape(arguments, ape_folder, env)


@contextlib.asynccontextmanager
async def alone() -> AsyncIterator[None]:
    """Two ape processes would write the same build folder and package cache: one at a time in a checkout."""
    with (ROOT / ".vpm" / "env" / "ape.lock").open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.1)
        yield


async def _run_ape(arguments: Sequence[str], ape_folder: Path, env: Mapping[str, str] | None = None) -> str:
    # ape treats a project inside the temporary folder differently; with one of our own it never is.
    temporary = ROOT / ".vpm" / "env" / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    settings = {"APE_DATA_FOLDER": str(ape_folder), "TMPDIR": str(temporary)}
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("ape")),
        *arguments,
        cwd=ROOT,
        env={**bootstrap.environment(), **settings, f"APE_ACCOUNTS_{ACCOUNT}_PASSPHRASE": PASSPHRASE, **(env or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output = (await process.communicate())[0].decode(errors="replace")
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode != 0:
        tail = "".join(f"\n    | {line}" for line in output.splitlines()[-15:])
        raise StackError(f"ape {' '.join(arguments[:2])} failed:{tail}")
    return output


def import_account(ape_folder: Path, alias: str, wallet: wallets.Wallet) -> None:
    """Give ape a local key as a keystore, as an operator would give it theirs."""
    path = ape_folder / "accounts" / f"{alias}.json"
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Few iterations: this keystore hides a key that is public anyway, and every script start decrypts it.
    keystore = Account.encrypt(
        bytes.fromhex(wallet.private_key.removeprefix("0x")), PASSPHRASE, kdf="pbkdf2", iterations=1_000
    )
    path.write_text(json.dumps({**keystore, "address": wallet.address.removeprefix("0x").lower()}))
