"""Builds our contracts and records the build. Run `python -m scripts._deploy.build` after changing the sources.

    core/contracts/abi/              the ABIs of the contracts that daemons call, so that running them needs no compiler
    scripts/_deploy/bytecode.json    the hashes of the creation code, to compare other builds with
    scripts/_deploy/build.json.gz    the build itself, which local chains use without compiling again

Every checkout must produce the same bytes, including the metadata. One test compiles the contracts and another compares
the records. Only these bytes are deployed to a live network.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from eth_utils.crypto import keccak

from core.hexadecimal import bytes_of, hex_of
from core.paths import REPOSITORY
from scripts._deploy.safe import safe_abi
from scripts._stack.ape import ape, ape_lock

MANIFEST = REPOSITORY / ".build" / "__local__.json"
STAMP = REPOSITORY / ".vpm" / "env" / "contracts.stamp"
RECORDED = REPOSITORY / "scripts" / "_deploy" / "build.json.gz"
ABI = REPOSITORY / "core" / "contracts" / "abi"
# Not in contracts/: ape takes every JSON there for a contract.
BYTECODE = REPOSITORY / "scripts" / "_deploy" / "bytecode.json"
SETTINGS = ("evmVersion", "optimizer", "viaIR")
COMPILED_WITH = ("@openzeppelin/contracts", "solady", "solc")

# The contracts that are deployed to live networks. Libraries are compiled into them, and so are the libraries' errors.
DEPLOYED = (
    "AgentLister",
    "FeedResolver",
    "MarketLister",
    "ObservationFeed",
    "Pauser",
    "PoolFeed",
    "RoundResolver",
    "SettlementWallet",
    "VestedMarkets",
)
OTHER_ABIS = ("IERC3009", "LocalFeed", "LocalStockToken", "LocalUSDC", "LocalUSDG")


def sources_hash() -> str:
    """Return a hash of the sources, the settings, and the versions of the libraries and the compiler."""
    digest = hashlib.sha256((REPOSITORY / "ape-config.yaml").read_bytes())
    locked = json.loads((REPOSITORY / "package-lock.json").read_text())["packages"]
    for name in COMPILED_WITH:
        digest.update(locked[f"node_modules/{name}"]["integrity"].encode())
    for path in _sources():
        digest.update(str(path.relative_to(REPOSITORY)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _sources() -> list[Path]:
    return sorted(path for path in (REPOSITORY / "contracts").rglob("*.sol") if ".cache" not in path.parts)


def compiled_contracts() -> dict[str, Any]:
    """Return each contract's ABI and code. They come from ape's build or, before the first compilation, from the
    recorded build."""
    return _contract_types(MANIFEST.stat().st_mtime_ns if MANIFEST.exists() else None)


@lru_cache(maxsize=1)  # the build is several megabytes, and a first start places a dozen contracts
def _contract_types(modified: int | None) -> dict[str, Any]:
    built = recorded_build(sources_hash()) if modified is None else None
    return dict((built or json.loads(MANIFEST.read_text()))["contractTypes"])


def compiled_code(name: str) -> str:
    return str(compiled_contracts()[name]["runtimeBytecode"]["bytecode"])


def creation_code(name: str) -> bytes:
    return bytes_of(str(compiled_contracts()[name]["deploymentBytecode"]["bytecode"]))


def recorded_build(sources: str) -> dict[str, Any] | None:
    """Return the recorded build as ape's manifest, or None if the hash of its sources is not `sources`."""
    record: dict[str, Any] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    if record.pop("sourcesHash") != sources:
        return None
    texts = {str(path.relative_to(REPOSITORY)): {"content": path.read_text(), "urls": []} for path in _sources()}
    return {**record, "manifest": "ethpm/3", "sources": texts}


def record_build() -> None:
    """Record the build that ape compiled, without its debug data and source text."""
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


def is_compiled(sources: str) -> bool:
    return MANIFEST.exists() and STAMP.exists() and STAMP.read_text() == sources


async def compile_all() -> None:
    """Bring ape's build up to date with the sources. Use the recorded build if it matches, else run the compiler."""
    sources = sources_hash()
    if is_compiled(sources):
        return
    async with ape_lock():
        if is_compiled(sources):  # by another stack, while this one waited for the lock
            return
        if recorded := recorded_build(sources):
            MANIFEST.parent.mkdir(exist_ok=True)
            MANIFEST.write_text(json.dumps(recorded))
        else:
            MANIFEST.unlink(missing_ok=True)  # ape keeps contracts there whose sources are gone
            with ape(REPOSITORY / ".vpm" / "env" / "ape") as started:
                await started.run(["compile", "--force"])
        STAMP.write_text(sources)


def abis() -> dict[str, str]:
    found = {**{name: compiled_contracts()[name]["abi"] for name in (*DEPLOYED, *OTHER_ABIS)}, "Safe": safe_abi()}
    return {name: json.dumps(abi, indent=1, sort_keys=True) + "\n" for name, abi in found.items()}


def bytecode() -> dict[str, Any]:
    manifest = json.loads(MANIFEST.read_text())
    (compiler,) = manifest["compilers"]
    return {
        "compiler": f"solc {compiler['version']}",
        "settings": {name: compiler["settings"][name] for name in SETTINGS},
        "creationCodeKeccak256": {name: _hash(creation_code(name)) for name in DEPLOYED},
    }


def unrecorded(codes: Mapping[str, bytes]) -> list[str]:
    """Return the contracts whose creation code, without arguments, differs from the recorded one."""
    recorded: dict[str, str] = json.loads(BYTECODE.read_text())["creationCodeKeccak256"]
    return sorted(name for name, code in codes.items() if _hash(code) != recorded.get(name))


def _hash(code: bytes) -> str:
    return hex_of(keccak(code))


def main() -> int:
    asyncio.run(compile_all())  # the records of an older build would pass for these sources
    for path in ABI.glob("*.json"):
        path.unlink()
    for name, text in abis().items():
        (ABI / f"{name}.json").write_text(text)
    BYTECODE.write_text(json.dumps(bytecode(), indent=2) + "\n")
    record_build()
    return 0


if __name__ == "__main__":
    sys.exit(main())
