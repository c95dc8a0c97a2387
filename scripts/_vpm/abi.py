"""Writes core/contracts/abi/, the ABIs of the contracts that daemons call, so that running them needs no compiler.

`python -m scripts._vpm.abi` writes the folder from ape's build; a test fails if the two differ.
"""

from __future__ import annotations

import json
import sys

from core.paths import REPOSITORY
from scripts._deploy.safe import safe_abi
from scripts._stack.contracts import compiled_contract

ABI = REPOSITORY / "core" / "contracts" / "abi"

# Errors of libraries that are linked at compile time are part of the ABIs of the contracts that use them.
CONTRACTS = (
    "AgentLister",
    "FeedResolver",
    "IERC3009",
    "LocalFeed",
    "LocalStockToken",
    "LocalUSDC",
    "LocalUSDG",
    "MarketLister",
    "ObservationFeed",
    "Pauser",
    "PoolFeed",
    "RoundResolver",
    "SettlementWallet",
    "VestedMarkets",
)


def rendered() -> dict[str, str]:
    abis = {**{name: compiled_contract(name)["abi"] for name in CONTRACTS}, "Safe": safe_abi()}
    return {name: json.dumps(abi, indent=1, sort_keys=True) + "\n" for name, abi in abis.items()}


def main() -> int:
    fresh = rendered()
    ABI.mkdir(exist_ok=True)
    for path in ABI.glob("*.json"):
        path.unlink()
    for name, text in fresh.items():
        (ABI / f"{name}.json").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
