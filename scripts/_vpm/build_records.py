"""Records the build of the contracts: `python -m scripts._vpm.build_records`, after a change of the sources.

    core/contracts/abi/              the ABIs of the contracts that daemons call, so that running them needs no compiler
    scripts/_deploy/bytecode.json    the hashes of the creation code, to compare other builds with
    scripts/_deploy/build.json.gz    the build itself, which local chains use without compiling again

Every checkout has to build the same bytes, metadata included: a test compiles them, another compares the records, and
only these bytes are deployed to a live network.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

from eth_utils.crypto import keccak

from core.hexadecimal import hex_of
from core.paths import REPOSITORY
from scripts._deploy.safe import safe_abi
from scripts._stack.contracts import MANIFEST, compile_all, compiled_contract, record_build
from scripts._stack.genesis import creation_code

ABI = REPOSITORY / "core" / "contracts" / "abi"
# Not in contracts/: ape takes every JSON there for a contract.
BYTECODE = REPOSITORY / "scripts" / "_deploy" / "bytecode.json"
SETTINGS = ("evmVersion", "optimizer", "viaIR")

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


def abis() -> dict[str, str]:
    """Return the ABI files' content by contract."""
    found = {**{name: compiled_contract(name)["abi"] for name in (*DEPLOYED, *OTHER_ABIS)}, "Safe": safe_abi()}
    return {name: json.dumps(abi, indent=1, sort_keys=True) + "\n" for name, abi in found.items()}


def bytecode() -> dict[str, Any]:
    """Return the content of bytecode.json for the present build."""
    manifest = json.loads(MANIFEST.read_text())
    (compiler,) = manifest["compilers"]
    return {
        "compiler": f"solc {compiler['version']}",
        "settings": {name: compiler["settings"][name] for name in SETTINGS},
        "creationCodeKeccak256": {name: _hash(creation_code(name)) for name in DEPLOYED},
    }


def unrecorded(codes: Mapping[str, bytes]) -> list[str]:
    """Return the contracts whose creation code differs from the recorded one. The codes are compared without
    constructor arguments."""
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
