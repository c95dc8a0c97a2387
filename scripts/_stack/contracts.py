"""What our contracts compile to.

The build of the sources as they were committed is recorded (`python -m scripts._vpm.bytecode`) and is taken as it is;
only who changed Solidity waits for the compiler.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

from core.paths import REPOSITORY
from scripts._stack.ape import alone, ape

MANIFEST = REPOSITORY / ".build" / "__local__.json"
STAMP = REPOSITORY / ".vpm" / "env" / "contracts.stamp"
RECORDED = REPOSITORY / "scripts" / "_deploy" / "build.json.gz"
COMPILED_WITH = ("@openzeppelin/contracts", "solady", "solc")


def sources_hash() -> str:
    """Hash everything that the build depends on: our sources and settings, the libraries' and compiler's packages."""
    digest = hashlib.sha256((REPOSITORY / "ape-config.yaml").read_bytes())
    locked = json.loads((REPOSITORY / "package-lock.json").read_text())["packages"]
    for name in COMPILED_WITH:
        digest.update(locked[f"node_modules/{name}"]["integrity"].encode())
    for path in _sources():
        digest.update(str(path.relative_to(REPOSITORY)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _sources() -> list[Path]:
    return sorted(path for path in (REPOSITORY / "contracts").rglob("*.sol") if ".cache" not in path.parts)


def compiled() -> bool:
    return MANIFEST.exists() and STAMP.exists() and STAMP.read_text() == sources_hash()


def compiled_contracts() -> dict[str, Any]:
    """Return what ape keeps of each contract: ABI, creation code, code. Before it compiled any: as recorded."""
    built = None if MANIFEST.exists() else recorded_build()
    return dict((built or json.loads(MANIFEST.read_text()))["contractTypes"])


def compiled_contract(name: str) -> Any:
    return compiled_contracts()[name]


def recorded_build() -> dict[str, Any] | None:
    """Return ape's manifest of these sources, if they are the ones that were recorded."""
    record: dict[str, Any] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    if record.pop("sourcesHash") != sources_hash():
        return None
    texts = {str(path.relative_to(REPOSITORY)): {"content": path.read_text(), "urls": []} for path in _sources()}
    return {**record, "manifest": "ethpm/3", "sources": texts}


def record_build() -> None:
    """Write down what ape compiled, without what only a debugger reads and what stands in the sources."""
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
    """Take the recorded build, or compile, unless it is done already, maybe just now by another stack."""
    if compiled():
        return
    async with alone():
        if compiled():
            return
        sources = sources_hash()
        if recorded := recorded_build():
            MANIFEST.parent.mkdir(exist_ok=True)
            MANIFEST.write_text(json.dumps(recorded))
        else:
            MANIFEST.unlink(missing_ok=True)  # ape keeps contracts there whose sources are gone
            with ape(REPOSITORY / ".vpm" / "env" / "ape") as started:
                await started.run(["compile", "--force"])
        STAMP.write_text(sources)
