"""Contracts that name each other at construction: their addresses follow from the deployer's nonces, which are known
before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rlp
from eth_utils.address import to_canonical_address, to_checksum_address
from eth_utils.crypto import keccak

from core.chain import Contract
from core.contracts.abi import abi
from scripts._deploy.sending import Step


def create_address(deployer: str, nonce: int) -> str:
    """Return the address of the contract that `deployer` creates with `nonce`."""
    return str(to_checksum_address(keccak(rlp.encode([to_canonical_address(deployer), nonce]))[12:]))


class Transactions:
    """The transactions of a deployment in their order. `self[name]` is where one of the first contracts, those of
    `roles`, will stand."""

    def __init__(self, deployer: str, first_nonce: int, project: Any, roles: Mapping[str, str]) -> None:
        self.deployer = deployer
        self.steps: list[Step] = []
        self._next_nonce = first_nonce
        self._project = project
        self._roles = roles
        self._at = {name: create_address(deployer, first_nonce + n) for n, name in enumerate(roles)}

    def __getitem__(self, name: str) -> str:
        return self._at[name]

    def put(self, name: str, **given: Any) -> Contract:
        """Creates one of the first contracts, in the order of `roles`; `given` are the constructor's arguments by their
        names, so that no two can change places."""
        container = getattr(self._project, name)
        names = [each.name.rstrip("_") for each in container.contract_type.constructor.inputs]
        if sorted(names) != sorted(given):
            raise TypeError(f"{name} is constructed with {', '.join(names)}, not with {', '.join(given)}")
        made = self.create(name, name, self._roles[name], {each: given[each] for each in names})
        assert made.address == self[name]
        return made

    def create(self, kind: str, name: str, role: str, args: Mapping[str, Any]) -> Contract:
        """Creates a contract of some kind, which the deployment file has under `name`."""
        address = create_address(self.deployer, self._next_nonce)
        data = bytes(getattr(self._project, kind).constructor.serialize_transaction(*args.values()).data)
        self._add(Step(f"create {name}", data, contract=name, address=address, role=role, args=args))
        return Contract(address, abi(kind))

    def call(self, contract: Contract, what: str, function: str, *arguments: Any) -> None:
        self._add(Step.of(contract.call(function, *arguments), what))

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        self._next_nonce += 1
