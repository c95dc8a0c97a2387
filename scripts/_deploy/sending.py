"""The transactions of a deployment: known in full before the first is sent, and each stored before it is sent.

Every one has its nonce from the start, so a deployment that was stopped goes on where it was: what is mined is left as
it is, what is stored is sent again as it is, and only what was never stored is signed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from eth_utils.crypto import keccak

from core.chain.contract import Call
from core.contracts.deployments import ContractInfo
from core.hexadecimal import hex_of
from scripts._deploy.journal import Journal
from scripts._deploy.session import DeploySession, ScriptRefused

MINED_SECONDS = 300.0
ASKED_SECONDS = 0.2
# What a call of a contract that does not stand yet may cost: more than any of ours, which write a few words.
CALL_GAS = 200_000
# What creating a contract may cost where a node cannot say: by the gas table's 200 a byte of code and 16 of call data.
CREATION_GAS, BYTE_GAS = 500_000, 216
FEES_MAY_RISE = (3, 2)


@dataclass(frozen=True)
class Step:
    """One transaction. `contract`: what it creates under which name in the deployment file, and with which arguments;
    otherwise it calls `to`."""

    what: str
    data: bytes
    to: str | None = None
    contract: str | None = None
    address: str | None = None  # where it creates something, as follows from its nonce
    role: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(call: Call, what: str) -> Step:
        return Step(what, call.data, to=call.to)


def digest_of(steps: Sequence[Step]) -> str:
    """Return a hash of all that the transactions do."""
    return hashlib.sha256("\n".join(f"{each.to} {each.data.hex()}" for each in steps).encode()).hexdigest()


@dataclass(frozen=True)
class Sending:
    """The transactions of one deployment, from the nonce of the first on."""

    session: DeploySession
    steps: Sequence[Step]
    first_nonce: int

    def show(self) -> None:
        """Lists what is still to be sent and what it costs at most. ScriptRefused where the account cannot pay it."""
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
                f"{self.session.address} has {_ether(balance)} and may need {_ether(total * price)}. Nothing was sent: "
                "send it the rest, then run this again."
            )

    def carry_out(self, journal: Journal) -> dict[str, ContractInfo]:
        """Sends what is not mined yet, one after the other; what was created, by name."""
        contracts: dict[str, ContractInfo] = {}
        for nonce, step in enumerate(self.steps, self.first_nonce):
            receipt = self._landed(journal, nonce, step)
            if int(receipt["status"], 16) != 1:
                raise ScriptRefused(
                    f"{step.what} reverted in {receipt['transactionHash']}. What stands is of no use: keep "
                    f"{journal.path} somewhere else and deploy anew."
                )
            if step.address is not None and len(self.session.ask("eth_getCode", step.address, "latest")) <= 2:
                raise ScriptRefused(
                    f"{step.what}: the node shows no code at {step.address}. Ask again, or another node."
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

    def _landed(self, journal: Journal, nonce: int, step: Step) -> Any:
        """Return the receipt of a step's transaction; send it if it is not mined."""
        stored = journal.sent(nonce)
        for digest in stored:
            if (receipt := self._receipt(digest)) is not None:
                return receipt
        if self._count("latest") > nonce:
            raise ScriptRefused(
                f"nonce {nonce} of {self.session.address} was to {step.what}, but another transaction has taken it. "
                f"What stands is of no use: keep {journal.path} somewhere else and deploy anew."
            )
        if not stored or not self._is_taken(list(stored.values())[-1]):
            raw = self.session.signed(step.to, step.data, nonce)
            digest = hex_of(keccak(raw))
            journal.stores(nonce, step.what, digest, raw)
            stored[digest] = raw
            self.session.ask("eth_sendRawTransaction", hex_of(raw))
        return self._wait(step, stored)

    def _is_taken(self, raw: bytes) -> bool:
        """Sends a stored transaction again; False where the node will not have it any more, for its fees."""
        try:
            self.session.ask("eth_sendRawTransaction", hex_of(raw))
        except Exception as error:  # ape raises several kinds, and nodes have their own words
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
            f"{step.what}: no block has {', '.join(stored)} after {MINED_SECONDS:.0f} s. Run this again: it goes on."
        )

    def _receipt(self, digest: str) -> Any:
        return self.session.ask("eth_getTransactionReceipt", digest)

    # ---------------------------------------------------------------- what it costs

    def _mined(self) -> int:
        """Return how many of the steps are mined, if nobody else used the account."""
        return min(len(self.steps), max(0, self._count("latest") - self.first_nonce))

    def _count(self, block: str) -> int:
        return int(self.session.ask("eth_getTransactionCount", self.session.address, block), 16)

    def _gas(self, step: Step) -> int:
        if step.to is not None:
            return CALL_GAS + 16 * len(step.data)
        try:
            asked = {"from": self.session.address, "data": hex_of(step.data)}
            return int(self.session.ask("eth_estimateGas", asked), 16)
        except Exception:  # its constructor asks a contract that does not stand yet
            return CREATION_GAS + BYTE_GAS * len(step.data)


def _ether(wei: int) -> str:
    return f"{wei / 10**18:.6f} ETH"
