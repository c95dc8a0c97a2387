"""Contracts that name each other at construction: their addresses are computed from the deployer's nonce first.

None of ours has a setter for its siblings, so each deployment is checked against the address the others were given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rlp
from eth_utils.address import to_canonical_address, to_checksum_address
from eth_utils.crypto import keccak

from scripts._deploy.journal import Journal
from scripts._deploy.record import deployed


class AddressMoved(Exception):
    """The news that a contract landed on another address than its siblings were given; nothing of this run may be
    used."""


def create_address(deployer: str, nonce: int) -> str:
    """The address of the contract that `deployer` creates with `nonce`."""
    return str(to_checksum_address(keccak(rlp.encode([to_canonical_address(deployer), nonce]))[12:]))


class Siblings:
    """Contracts deployed in the order of `roles`, each at the address that `self[name]` promised."""

    def __init__(self, sender: Any, project: Any, roles: Mapping[str, str], journal: Journal) -> None:
        self._sender = sender
        self._project = project
        self._roles = roles
        self._journal = journal
        first = int(sender.nonce)
        self._at = {name: create_address(sender.address, first + n) for n, name in enumerate(roles)}

    def __getitem__(self, name: str) -> str:
        return self._at[name]

    def put(self, name: str, **given: Any) -> Any:
        """Deploys one; `given` are the constructor's arguments by their names, so that no two can change places."""
        container = getattr(self._project, name)
        names = [each.name.rstrip("_") for each in container.contract_type.constructor.inputs]
        if sorted(names) != sorted(given):
            raise TypeError(f"{name} is constructed with {', '.join(names)}, not with {', '.join(given)}")
        args = {each: given[each] for each in names}
        instance = self._sender.deploy(container, *args.values())
        self._journal.stands(name, deployed(instance, self._roles[name], args))
        if instance.address != self._at[name]:
            raise AddressMoved(
                f"{name} is at {instance.address}, but its siblings expect {self._at[name]}: another transaction of "
                f"{self._sender.address} came in between. Nothing is wired, and what stands is of no use."
            )
        return instance
