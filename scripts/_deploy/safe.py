"""Creates a Safe from the published Safe package, and executes or prints its transactions. On a local stack the owners'
keys are known, so the transactions are signed and executed. On a live network the owners sign in their own wallets, and
`payload` prints what they have to approve."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click
from eth_account import Account
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes

from core.chain import Contract
from core.chain.contract import Abi, Call
from core.contracts.deployments import Deployment
from core.hexadecimal import hex_of
from core.paths import REPOSITORY

ARTIFACTS = REPOSITORY / "node_modules" / "@safe-global" / "safe-contracts" / "build" / "artifacts" / "contracts"

# The addresses of the published Safe 1.4.1 contracts, the same on every chain. On rollups SafeL2 is used, which logs
# what a Safe does, because nodes there keep no traces.
SINGLETON = "0x29fcB43b46531BcA003ddC8FCB67FFE91900C762"
MIN_THRESHOLD = 2
"""The minimum number of owners who must sign on a live network, so that no single key has control."""
PROXY_FACTORY = "0x4e1DCf7AD4e460CfD30791CCC4F9c8a4f820ec67"
FALLBACK_HANDLER = "0xfd0732Dc9E303f09fCEf3a7388Ad10A83459Ec99"
ZERO = "0x0000000000000000000000000000000000000000"
OWNER_KEYS_VARIABLE = "VPM_SAFE_OWNER_KEYS"  # local stacks only; on a live network owners sign in their own wallets


def safe_abi() -> list[Any]:
    return _abi("Safe.sol/Safe")


def factory_abi() -> list[Any]:
    return _abi("proxies/SafeProxyFactory.sol/SafeProxyFactory")


def _abi(artifact: str) -> list[Any]:
    abi: list[Any] = json.loads((ARTIFACTS / f"{artifact}.json").read_text())["abi"]
    return abi


@dataclass(frozen=True)
class SafeCall:
    to: str
    data: bytes
    what: str  # a description for the people who sign

    def payload(self, safe: str) -> str:
        return json.dumps({"safe": safe, "to": self.to, "value": "0", "data": hex_of(self.data), "what": self.what})


def singleton_of(provider: Any, safe: str) -> str:
    """Return the address of the code that a Safe runs, read from the first storage slot of the Safe's proxy."""
    slot = provider.make_request("eth_getStorageAt", [safe, "0x0", "latest"])
    return str(to_checksum_address(bytes(HexBytes(slot))[-20:]))


def creation(owners: Sequence[str], threshold: int, salt: int) -> Call:
    """Return the call that creates a Safe. The Safe's address depends on the owners, the threshold and `salt`."""
    given = (list(owners), threshold, ZERO, b"", FALLBACK_HANDLER, ZERO, 0, ZERO)
    setup = Contract(SINGLETON, Abi(safe_abi())).call("setup", *given).data
    return Contract(PROXY_FACTORY, Abi(factory_abi())).call("createProxyWithNonce", SINGLETON, setup, salt)


def execute(sender: Any, safe: Any, call: SafeCall, owner_keys: Sequence[str]) -> Any:
    """Execute `call` through the Safe, signed with the owners' keys. `sender` only pays for gas."""
    digest = bytes(
        safe.getTransactionHash(call.to, 0, call.data, 0, 0, 0, 0, ZERO, ZERO, safe.call_view_method("nonce"))
    )
    signed = [(Account.from_key(key).address, Account.unsafe_sign_hash(digest, key)) for key in owner_keys]
    # The Safe requires the signatures in ascending order of the signers' addresses.
    signatures = b"".join(bytes(s.signature) for _, s in sorted(signed, key=lambda pair: int(pair[0], 16)))
    return safe.execTransaction(call.to, 0, call.data, 0, 0, 0, 0, ZERO, ZERO, signatures, sender=sender)


def pending(contract: Any, deployment: Deployment, safe: str) -> Iterator[SafeCall]:
    """Yield the calls by which the Safe accepts every ownership offered to it. `contract(name, address)` binds a
    contract."""
    for name, info in deployment.contracts.items():
        bound = contract(name, info.address)
        if hasattr(bound, "pendingOwner") and bound.pendingOwner() == safe:
            yield SafeCall(info.address, bytes(bound.acceptOwnership.encode_input()), f"accept the ownership of {name}")


def execute_or_print(sender: Any, bound: Any, calls: Iterable[SafeCall], *, send: bool) -> None:
    keys = [key for key in os.environ.get(OWNER_KEYS_VARIABLE, "").split(",") if key] if send else []
    for call in calls:
        if keys:
            execute(sender, bound, call, keys)
            click.echo(f"done by the Safe: {call.what}")
        else:
            click.echo(call.payload(bound.address))
