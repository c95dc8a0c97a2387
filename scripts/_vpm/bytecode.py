"""Records the build of the contracts in scripts/_deploy: bytecode.json, its hashes, to compare other builds with, and
build.json.gz, the build itself, which local chains use without compiling again.

`python -m scripts._vpm.bytecode` writes both from ape's build; a test fails if bytecode.json differs. Every checkout
has to build the same bytes, metadata included: a test compiles them, and only they are deployed to a live network.
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
from scripts._stack.contracts import MANIFEST, compile_all, record_build
from scripts._stack.genesis import creation_code

# Not in contracts/: ape takes every JSON there for a contract.
RECORD = REPOSITORY / "scripts" / "_deploy" / "bytecode.json"
SETTINGS = ("evmVersion", "optimizer", "viaIR")

# The contracts that are deployed to live networks. Libraries are compiled into them.
CONTRACTS = (
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


def built() -> dict[str, Any]:
    """Return the record of the present build."""
    manifest = json.loads(MANIFEST.read_text())
    (compiler,) = manifest["compilers"]
    return {
        "compiler": f"solc {compiler['version']}",
        "settings": {name: compiler["settings"][name] for name in SETTINGS},
        "creationCodeKeccak256": {name: digest(creation_code(name)) for name in CONTRACTS},
    }


def digest(code: bytes) -> str:
    return hex_of(keccak(code))


def unrecorded(codes: Mapping[str, bytes]) -> list[str]:
    """Return the contracts whose creation code, without constructor arguments, differs from the recorded one."""
    recorded: dict[str, str] = json.loads(RECORD.read_text())["creationCodeKeccak256"]
    return sorted(name for name, code in codes.items() if digest(code) != recorded.get(name))


def main() -> int:
    asyncio.run(compile_all())  # the record of an older build would pass for one of these sources
    RECORD.write_text(json.dumps(built(), indent=2) + "\n")
    record_build()
    return 0


if __name__ == "__main__":
    sys.exit(main())
