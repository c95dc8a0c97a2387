"""The transactions of a deployment, and the journal of those already signed.

All transactions are known before the first is sent, and each is stored in the journal before it is sent. Nonces are
assigned at the start, so an interrupted deployment can continue: mined transactions are skipped, stored ones are sent
again unchanged, and only those that were never stored are signed. The nonces also determine the contracts' addresses,
because the contracts reference each other at construction.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import click
import rlp
from eth_utils.address import to_canonical_address, to_checksum_address
from eth_utils.crypto import keccak

from core.chain import Contract
from core.contracts.abi import abi
from core.contracts.deployments import ContractInfo
from core.errors import DeploymentError
from core.hexadecimal import bytes_of, hex_of
from scripts._deploy.session import DeploySession, ScriptRefused


class Journal:
    """A file that stores a deployment's header and every transaction. A transaction is stored before it is sent. The
    file is deleted when the deployment is recorded."""

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f"{target.name}.unfinished")
        self._file: BinaryIO | None = None
        self._sent: dict[int, dict[str, bytes]] = {}

    def read_header(self) -> dict[str, Any] | None:
        """Return an interrupted deployment's header (chain, deployer, first nonce, Safe, digest), or None."""
        if not self.path.exists():
            return None
        try:
            lines = [json.loads(line) for line in _complete_lines(self.path.read_bytes())]
        except (OSError, ValueError) as error:
            raise DeploymentError(f"{self.path} cannot be read: {error}.") from None
        self._sent = {}
        for line in lines[1:]:
            self._sent.setdefault(line["nonce"], {})[line["tx"]] = bytes_of(line["raw"])
        return lines[0] if lines else None

    def begin(self, deployment: dict[str, Any]) -> None:
        """Open the file and lock it for this process, before anything is sent. If a deployment was interrupted, check
        that its header is the same."""
        try:
            self._file = self.path.open("ab+")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DeploymentError(
                f"Another process is deploying with {self.path}.", hint="Wait until it has finished."
            ) from None
        except OSError as error:
            raise DeploymentError(f"{self.path} cannot be written: {error.strerror}.") from None
        # A transaction is only sent after its line is complete, so an incomplete last line can be dropped.
        self._file.truncate(sum(map(len, _complete_lines(self.path.read_bytes()))))
        if (before := self.read_header()) is None:
            self._append(deployment)
        elif before != deployment:
            raise DeploymentError(
                f"{self.path} belongs to another deployment, which was interrupted.",
                hint="Use that deployment's options, or move the file away and deploy again.",
            )

    def sent(self, nonce: int) -> dict[str, bytes]:
        """Return the transactions that were signed with this nonce, by hash, in the order in which they were signed."""
        return dict(self._sent.get(nonce, {}))

    def store(self, nonce: int, what: str, digest: str, raw: bytes) -> None:
        self._append({"nonce": nonce, "what": what, "tx": digest, "raw": hex_of(raw)})

    def end(self) -> None:
        self.path.unlink()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _append(self, what: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(what).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _complete_lines(content: bytes) -> list[bytes]:
    return [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]


MINED_SECONDS = 300.0
ASKED_SECONDS = 0.2
# The gas estimate for calls of contracts that do not exist yet: more than any of ours, which write a few words.
CALL_GAS = 200_000
# The estimate for creating a contract if the node cannot estimate it: 200 gas a byte of code and 16 of call data.
CREATION_GAS, BYTE_GAS = 500_000, 216
FEES_MAY_RISE = (3, 2)


@dataclass(frozen=True)
class Step:
    """One transaction. It either creates `contract` (a name in the deployment file) with `args`, or calls `to`."""

    what: str
    data: bytes
    to: str | None = None
    contract: str | None = None
    address: str | None = None  # of the contract it creates, from its nonce
    role: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)


def create_address(deployer: str, nonce: int) -> str:
    return str(to_checksum_address(keccak(rlp.encode([to_canonical_address(deployer), nonce]))[12:]))


class Transactions:
    """A deployment's transactions in order. The contracts in `roles` come first. For each of them, `self[name]` is the
    address that the contract will have."""

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
        """Add the creation of the next contract in `roles`. Arguments are passed by name, so that two addresses cannot
        be swapped."""
        container = getattr(self._project, name)
        names = [each.name.rstrip("_") for each in container.contract_type.constructor.inputs]
        if sorted(names) != sorted(given):
            raise TypeError(f"the arguments of {name} are {', '.join(names)}, not {', '.join(given)}")
        made = self.create(name, name, self._roles[name], {each: given[each] for each in names})
        assert made.address == self[name]
        return made

    def create(self, kind: str, name: str, role: str, args: Mapping[str, Any]) -> Contract:
        address = create_address(self.deployer, self._next_nonce)
        data = bytes(getattr(self._project, kind).constructor.serialize_transaction(*args.values()).data)
        self._add(Step(f"create {name}", data, contract=name, address=address, role=role, args=args))
        return Contract(address, abi(kind))

    def call(self, contract: Contract, what: str, function: str, *arguments: Any) -> None:
        made = contract.call(function, *arguments)
        self._add(Step(what, made.data, to=made.to))

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        self._next_nonce += 1


def digest_of(steps: Sequence[Step]) -> str:
    return hashlib.sha256("\n".join(f"{each.to} {each.data.hex()}" for each in steps).encode()).hexdigest()


@dataclass(frozen=True)
class Sending:
    session: DeploySession
    steps: Sequence[Step]
    first_nonce: int

    def show(self) -> None:
        """List the remaining transactions and their maximum cost. Raise ScriptRefused if the account cannot pay that
        cost."""
        mined = self._mined()
        price = int(self.session.ask("eth_gasPrice"), 16) * FEES_MAY_RISE[0] // FEES_MAY_RISE[1]  # down, by a wei
        total = 0
        for number, step in enumerate(self.steps, 1):
            if number <= mined:
                click.echo(f"  {number}. {step.what}: done")
                continue
            gas = self._gas(step)
            total += gas
            click.echo(f"  {number}. {step.what}: {gas:,} gas")
        balance = int(self.session.ask("eth_getBalance", self.session.address, "latest"), 16)
        click.echo(
            f"  {len(self.steps) - mined} transactions, at most {_ether(total * price)} at {price / 10**9:.3f} gwei;"
            f" {self.session.address} has {_ether(balance)}"
        )
        if self.session.send and balance < total * price:
            raise ScriptRefused(
                f"{self.session.address} has {_ether(balance)} and may need {_ether(total * price)}. Nothing was sent. "
                "Fund the account, then run this again."
            )

    def execute(self, journal: Journal) -> dict[str, ContractInfo]:
        """Send the transactions that are not mined yet, one by one. Return the created contracts by name."""
        contracts: dict[str, ContractInfo] = {}
        for nonce, step in enumerate(self.steps, self.first_nonce):
            receipt = self._ensure_mined(journal, nonce, step)
            if int(receipt["status"], 16) != 1:
                raise ScriptRefused(
                    f"the transaction to {step.what} reverted ({receipt['transactionHash']}). This deployment "
                    f"cannot continue: move {journal.path} away and deploy again."
                )
            if step.address is not None and len(self.session.ask("eth_getCode", step.address, "latest")) <= 2:
                raise ScriptRefused(
                    f"the node shows no code at {step.address} after the transaction to {step.what}. Run this "
                    "again, or use another node."
                )
            if step.contract is not None:
                assert step.address is not None
                contracts[step.contract] = ContractInfo(
                    address=step.address,
                    role=step.role,
                    deploy_tx=str(receipt["transactionHash"]).lower(),
                    deploy_block=int(receipt["blockNumber"], 16),
                    deployer=self.session.address,
                    constructor_args=dict(step.args),
                )
            click.echo(f"{nonce - self.first_nonce + 1} of {len(self.steps)}: {step.what}")
        return contracts

    # ---------------------------------------------------------------- one transaction

    def _ensure_mined(self, journal: Journal, nonce: int, step: Step) -> Any:
        """Return the receipt of a step's transaction. If it is not mined yet, send it first."""
        stored = journal.sent(nonce)
        for digest in stored:
            if (receipt := self._receipt(digest)) is not None:
                return receipt
        if self._count("latest") > nonce:
            raise ScriptRefused(
                f"another transaction used nonce {nonce} of {self.session.address}, which was meant to {step.what}. "
                f"This deployment cannot continue: move {journal.path} away and deploy again."
            )
        if not stored or not self._resend(list(stored.values())[-1]):
            raw = self.session.signed(step.to, step.data, nonce)
            digest = hex_of(keccak(raw))
            journal.store(nonce, step.what, digest, raw)
            stored[digest] = raw
            self.session.ask("eth_sendRawTransaction", hex_of(raw))
        return self._wait(step, stored)

    def _resend(self, raw: bytes) -> bool:
        """Send a stored transaction again. Return False if the node rejects it because its fees are too low."""
        try:
            self.session.ask("eth_sendRawTransaction", hex_of(raw))
        except Exception as error:  # ape raises several types, and nodes' messages differ
            return "known" in str(error).lower() or "imported" in str(error).lower()
        return True

    def _wait(self, step: Step, stored: Mapping[str, bytes]) -> Any:
        ends = time.monotonic() + MINED_SECONDS
        while time.monotonic() < ends:
            for digest in stored:
                if (receipt := self._receipt(digest)) is not None:
                    return receipt
            time.sleep(ASKED_SECONDS)
        raise ScriptRefused(
            f"the transaction to {step.what} was not mined within {MINED_SECONDS:.0f} s ({', '.join(stored)}). Run "
            "this again to continue."
        )

    def _receipt(self, digest: str) -> Any:
        return self.session.ask("eth_getTransactionReceipt", digest)

    # ---------------------------------------------------------------- costs

    def _mined(self) -> int:
        """Return how many steps are mined. This assumes that nothing else sends transactions from the account."""
        return min(len(self.steps), max(0, self._count("latest") - self.first_nonce))

    def _count(self, block: str) -> int:
        return int(self.session.ask("eth_getTransactionCount", self.session.address, block), 16)

    def _gas(self, step: Step) -> int:
        if step.to is not None:
            return CALL_GAS + 16 * len(step.data)
        try:
            asked = {"from": self.session.address, "data": hex_of(step.data)}
            return int(self.session.ask("eth_estimateGas", asked), 16)
        except Exception:  # its constructor calls a contract that does not exist yet
            return CREATION_GAS + BYTE_GAS * len(step.data)


def _ether(wei: int) -> str:
    return f"{wei / 10**18:.6f} ETH"
