"""From what was deployed to the network's deployment file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eth_utils.address import to_checksum_address

from core.contracts.deployments import ContractInfo, Deployment, Safe
from core.contracts.feeds import AgentFeed


def deployed(instance: Any, role: str, args: Mapping[str, Any]) -> ContractInfo:
    """A contract that was just made, as the deployment file describes it. `args` are the constructor's, by name."""
    receipt = instance.creation_metadata.receipt if instance.creation_metadata else None
    if receipt is None:
        raise RuntimeError(f"no receipt of the deployment of {instance.address}")
    return ContractInfo(
        address=to_checksum_address(instance.address),
        role=role,
        deploy_tx=str(receipt.txn_hash).lower(),
        deploy_block=int(receipt.block_number),
        deployer=to_checksum_address(str(receipt.sender)),
        constructor_args=dict(args),
    )


def numbered(name: str, accounts: Sequence[str]) -> dict[str, str]:
    """Operator wallets of one power as the deployment file names them: `opener`, then `opener 1`."""
    return {f"{name} {number}" if number else name: one for number, one in enumerate(accounts)}


def deployed_network(
    facts: Deployment,
    contracts: Mapping[str, ContractInfo],
    safe: Safe,
    operator_wallets: Mapping[str, str],
    feeds: Sequence[AgentFeed] = (),
) -> Deployment:
    """The facts of a network plus what now stands on it; checked like any deployment file."""
    changed = facts.model_copy(
        update={
            "status": "deployed",
            "start_block": min(one.deploy_block for one in contracts.values() if one.deploy_block is not None),
            "contracts": dict(contracts),
            "safe": safe,
            "operator_wallets": dict(operator_wallets),
            "feeds": (*facts.price_feeds, *feeds),
        }
    )
    return Deployment.model_validate(changed.model_dump(by_alias=True))
