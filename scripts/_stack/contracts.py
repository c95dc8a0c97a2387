"""What our contracts compile to, and running our ape scripts against a local chain.

The build of the sources as they were committed is recorded (`python -m scripts._vpm.bytecode`) and is taken as it is;
only who changed Solidity waits for the compiler.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gzip
import hashlib
import json
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eth_account import Account

from scripts._stack import wallets
from scripts._stack.options import StackError
from scripts._vpm import bootstrap

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / ".build" / "__local__.json"
STAMP = ROOT / ".vpm" / "env" / "contracts.stamp"
RECORDED = ROOT / "scripts" / "_deploy" / "build.json.gz"
COMPILED_WITH = ("@openzeppelin/contracts", "solady", "solc")
ACCOUNT = "vpm-local-deployer"
PASSPHRASE = "public-key-of-a-local-stack"  # noqa: S105 (protects a key anybody can derive)


def sources_hash() -> str:
    """Of everything that the build depends on: our sources and settings, the libraries' and the compiler's packages."""
    digest = hashlib.sha256((ROOT / "ape-config.yaml").read_bytes())
    locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    for name in COMPILED_WITH:
        digest.update(locked[f"node_modules/{name}"]["integrity"].encode())
    for path in _sources():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _sources() -> list[Path]:
    return sorted(path for path in (ROOT / "contracts").rglob("*.sol") if ".cache" not in path.parts)


def compiled() -> bool:
    return MANIFEST.exists() and STAMP.exists() and STAMP.read_text() == sources_hash()


def compiled_contracts() -> dict[str, Any]:
    """What ape keeps of each contract that it compiled: ABI, creation code, code."""
    return dict(json.loads(MANIFEST.read_text())["contractTypes"])


def compiled_contract(name: str) -> Any:
    return compiled_contracts()[name]


def recorded_build() -> dict[str, Any] | None:
    """ape's manifest of these sources, if they are the ones that were recorded."""
    record: dict[str, Any] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    if record.pop("sourcesHash") != sources_hash():
        return None
    texts = {str(path.relative_to(ROOT)): {"content": path.read_text(), "urls": []} for path in _sources()}
    return {**record, "manifest": "ethpm/3", "sources": texts}


def record_build() -> None:
    """Writes down what ape compiled, without what only a debugger reads and what stands in the sources."""
    built = json.loads(MANIFEST.read_text())
    left_out = ("ast", "devdoc", "pcmap", "sourcemap", "userdoc")
    types = {
        name: {part: value for part, value in one.items() if part not in left_out}
        for name, one in built["contractTypes"].items()
    }
    (compiler,) = built["compilers"]
    settings = {name: value for name, value in compiler["settings"].items() if name != "outputSelection"}
    compilers = [{"name": compiler["name"], "version": compiler["version"], "settings": settings}]
    record = {"sourcesHash": sources_hash(), "compilers": compilers, "contractTypes": types}
    RECORDED.write_bytes(gzip.compress(json.dumps(record, sort_keys=True).encode(), mtime=0))


async def compile_all() -> None:
    """Take the recorded build, or compile, unless another stack of this checkout did so while we waited for it."""
    async with alone():
        if compiled():
            return
        sources = sources_hash()
        if recorded := recorded_build():
            MANIFEST.parent.mkdir(exist_ok=True)
            MANIFEST.write_text(json.dumps(recorded))
        else:
            await _run_ape(["compile", "--force"], ROOT / ".vpm" / "env" / "ape")
        STAMP.write_text(sources)


async def compile_anew(copy: Path) -> dict[str, Any]:
    """The manifest of these sources, compiled in an empty folder, whatever has been compiled or recorded before."""
    shutil.copytree(ROOT / "contracts", copy / "contracts", ignore=shutil.ignore_patterns(".cache"))
    shutil.copy(ROOT / "ape-config.yaml", copy)
    (copy / "node_modules").symlink_to(ROOT / "node_modules")
    await _run_ape(["compile", "--force"], copy / "ape", project=copy)
    built: dict[str, Any] = json.loads((copy / ".build" / MANIFEST.name).read_text())
    return built


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


async def _run_ape(
    arguments: Sequence[str], ape_folder: Path, env: Mapping[str, str] | None = None, project: Path = ROOT
) -> str:
    # ape treats a project inside the temporary folder differently; with one of our own it never is.
    temporary = ROOT / ".vpm" / "env" / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    settings = {"APE_DATA_FOLDER": str(ape_folder), "TMPDIR": str(temporary)}
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("ape")),
        *arguments,
        cwd=project,
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
