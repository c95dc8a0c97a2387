"""Writes scripts/_deploy/bytecode.json: what the sources compile to, so that anybody can tell a build apart from ours.

`python -m scripts._vpm.bytecode` rewrites it from ape's build; `--check` fails when the two differ. Every checkout has
to build the same bytes, metadata included: a test compares them, and a live network is given nothing else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eth_utils.crypto import keccak

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / ".build" / "__local__.json"
RECORD = ROOT / "scripts" / "_deploy" / "bytecode.json"  # not in contracts/: ape takes every JSON there for a contract
SETTINGS = ("evmVersion", "optimizer", "viaIR")

# Those that are deployed to live networks. Libraries are compiled into them.
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
    """The record of the present build."""
    manifest = json.loads(MANIFEST.read_text())
    (compiler,) = manifest["compilers"]
    types = manifest["contractTypes"]
    return {
        "compiler": f"solc {compiler['version']}",
        "settings": {name: compiler["settings"][name] for name in SETTINGS},
        "creationCodeKeccak256": {
            name: digest(bytes.fromhex(types[name]["deploymentBytecode"]["bytecode"].removeprefix("0x")))
            for name in CONTRACTS
        },
    }


def digest(code: bytes) -> str:
    return "0x" + keccak(code).hex()


def unrecorded(codes: Mapping[str, bytes]) -> list[str]:
    """The contracts whose creation code, without constructor arguments, is not the recorded one."""
    known: dict[str, str] = json.loads(RECORD.read_text())["creationCodeKeccak256"]
    return sorted(name for name, code in codes.items() if digest(code) != known.get(name))


def main() -> int:
    record = built()
    if "--check" in sys.argv[1:]:
        if json.loads(RECORD.read_text()) == record:
            return 0
        print(
            "scripts/_deploy/bytecode.json differs from the build: run python -m scripts._vpm.bytecode", file=sys.stderr
        )
        return 1
    RECORD.write_text(json.dumps(record, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
