"""From what was deployed to the network's deployment file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from eth_utils.address import to_checksum_address

from core.contracts.deployments import ContractInfo, Deployment, Safe
from core.contracts.feeds import AgentFeed


@dataclass(frozen=True)
class Deployed:
    """A contract of ours. `args` are the constructor's, by name."""

    address: str
    tx: str
    block: int
    deployer: str
    args: Mapping[str, Any]

    @classmethod
    def of(cls, instance: Any, args: Mapping[str, Any]) -> Self:
        receipt = instance.creation_metadata.receipt if instance.creation_metadata else None
        if receipt is None:
            raise RuntimeError(f"no receipt of the deployment of {instance.address}")
        return cls(
            address=to_checksum_address(instance.address),
            tx=str(receipt.txn_hash).lower(),
            block=int(receipt.block_number),
            deployer=to_checksum_address(str(receipt.sender)),
            args=dict(args),
        )

    def info(self, role: str) -> ContractInfo:
        return ContractInfo(
            address=self.address,
            role=role,
            deploy_tx=self.tx,
            deploy_block=self.block,
            deployer=self.deployer,
            constructor_args=dict(self.args),
        )


def deployed_network(
    facts: Deployment,
    contracts: Mapping[str, Deployed],
    roles: Mapping[str, str],
    safe: Safe,
    operator_wallets: Mapping[str, str],
    feeds: Sequence[AgentFeed] = (),
) -> Deployment:
    """The facts of a network plus what now stands on it; checked like any deployment file."""
    listed = {name: one.info(roles[name]) for name, one in contracts.items()}
    changed = facts.model_copy(
        update={
            "status": "deployed",
            "start_block": min(one.block for one in contracts.values()),
            "contracts": listed,
            "safe": safe,
            "operator_wallets": dict(operator_wallets),
            "feeds": (*facts.price_feeds, *feeds),
        }
    )
    return Deployment.model_validate(changed.model_dump())
