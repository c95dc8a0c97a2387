"""The contracts that a fresh local chain has before ours: tokens, feeds, stock tokens and the Safe contracts.

Each has its address on the live chain, so that EIP-712 domains and clients work unchanged. Their code is set with
`anvil_setCode`, which suffices because they have no constructors and no immutables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from core.hexadecimal import bytes_of
from scripts._deploy import safe
from scripts._stack.contracts import compiled_contract

SAFE_THRESHOLD_SLOT = 4
IMPLEMENTATION_SLOT = int.from_bytes(keccak(text="org.zeppelinos.proxy.implementation"))
ADMIN_SLOT = int.from_bytes(keccak(text="org.zeppelinos.proxy.admin"))
USDC_NAME_SLOT = 5  # `_name` of LocalUSDC, after LocalToken's storage
USDC_IMPLEMENTATION = to_checksum_address(keccak(text="vpm local stack: USDC implementation")[12:])
# Not the zero address: eth_call without a sender uses that one, and the proxy serves its admin no token calls.
USDC_ADMIN = to_checksum_address(keccak(text="vpm local stack: USDC admin")[12:])


@dataclass(frozen=True)
class PlacedContract:
    """A contract to place on a fresh chain."""

    address: str
    code: str
    storage: Mapping[int, int] = field(default_factory=dict)

    def rpc(self) -> list[tuple[str, list[Any]]]:
        calls: list[tuple[str, list[Any]]] = [("anvil_setCode", [self.address, self.code])]
        for slot, value in self.storage.items():
            calls.append(("anvil_setStorageAt", [self.address, f"0x{slot:064x}", f"0x{value:064x}"]))
        return calls


def safe_contracts() -> list[PlacedContract]:
    return [
        # The singleton's own constructor sets its threshold to 1, so it can never be set up as a wallet.
        PlacedContract(safe.SINGLETON, _safe_code("SafeL2.sol/SafeL2"), {SAFE_THRESHOLD_SLOT: 1}),
        PlacedContract(safe.PROXY_FACTORY, _safe_code("proxies/SafeProxyFactory.sol/SafeProxyFactory")),
        PlacedContract(
            safe.FALLBACK_HANDLER,
            _safe_code("handler/CompatibilityFallbackHandler.sol/CompatibilityFallbackHandler"),
        ),
    ]


def usdc_contracts(token: str) -> list[PlacedContract]:
    """Return USDC behind a proxy. Its gas costs are those of the real USDC, because it reads its name for its domain
    from storage."""
    name = b"USD Coin"
    stored = int.from_bytes(name.ljust(31, b"\0") + bytes([2 * len(name)]))  # a short string in one slot
    storage = {
        IMPLEMENTATION_SLOT: int(USDC_IMPLEMENTATION, 16),
        ADMIN_SLOT: int(USDC_ADMIN, 16),
        USDC_NAME_SLOT: stored,
    }
    return [
        PlacedContract(USDC_IMPLEMENTATION, compiled_code("LocalUSDC")),
        PlacedContract(token, compiled_code("LocalUSDCProxy"), storage),
    ]


def _safe_code(artifact: str) -> str:
    return str(json.loads((safe.ARTIFACTS / f"{artifact}.json").read_text())["deployedBytecode"])


def compiled_code(name: str) -> str:
    """Return the runtime code of one of our local contracts."""
    return str(compiled_contract(name)["runtimeBytecode"]["bytecode"])


def creation_code(name: str) -> bytes:
    """Return the creation code of one of our contracts."""
    return bytes_of(str(compiled_contract(name)["deploymentBytecode"]["bytecode"]))
