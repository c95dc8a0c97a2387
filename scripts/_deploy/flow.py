"""The steps of a deployment: check, rehearse, show, deploy, record, hand over. They are the same on both chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from eth_utils.address import is_address, to_checksum_address
from eth_utils.crypto import keccak
from hexbytes import HexBytes

from core.contracts.deployments import ContractInfo, Deployment, Safe, write_deployment
from core.contracts.feeds import AgentFeed
from scripts._deploy import build
from scripts._deploy import safe as safes
from scripts._deploy.sending import Journal, Sending, Step, Transactions, create_address, digest_of
from scripts._deploy.session import DeploySession, Script, ScriptRefused


def deployment_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--threshold", type=int, default=2, show_default=True, help="how many owners of the new Safe must sign"
        ),
        click.option("--safe-owner", "safe_owners", multiple=True, help="an owner of a new Safe (repeatable)"),
        click.option("--safe", help="the address of an existing Safe (default: create one)"),
    ):
        function = option(function)
    return function


@dataclass(frozen=True)
class Recipe:
    """What a deployment puts on its chain. `sources` returns the feeds, given the deployed contracts."""

    contracts: Sequence[str]
    roles: Mapping[str, str]  # of the contracts that reference each other
    steps: Sequence[str]  # general lines to show
    wallets: Mapping[str, str]
    add: Callable[[Transactions, str], None]  # adds all transactions, given the Safe's address
    sources: Callable[[Mapping[str, ContractInfo]], Sequence[AgentFeed]] = lambda _contracts: ()

    def record(self, facts: Deployment, contracts: Mapping[str, ContractInfo], owner: Safe) -> Deployment:
        changed = facts.model_copy(
            update={
                "status": "deployed",
                "start_block": min(one.deploy_block for one in contracts.values() if one.deploy_block is not None),
                "contracts": dict(contracts),
                "safe": owner,
                "operator_wallets": dict(self.wallets),
                "feeds": (*facts.price_feeds, *self.sources(contracts)),
            }
        )
        return Deployment.model_validate(changed.model_dump(by_alias=True))

    def rehearsed(self, facts: Deployment, owner: Safe) -> Deployment:
        """Return the deployment file that this deployment would record, with placeholder addresses."""
        placeholders = {
            name: ContractInfo(address=create_address(safes.ZERO, number), role="rehearsed", deploy_block=0)
            for number, name in enumerate(self.contracts)
        }
        return self.record(facts, placeholders, owner)


@dataclass(frozen=True)
class Plan:
    session: DeploySession
    facts: Deployment
    out: Path
    bind: Callable[..., Any]  # ape's Contract
    existing_safe: str | None
    safe_owners: Sequence[str]
    threshold: int

    def execute(self, project: Any, recipe: Recipe) -> bool:
        """Show, deploy and record everything, then let the Safe accept ownership. Return False after a dry run. Before
        anything is sent, rehearse writing the deployment file, so that nothing is sent that could not be recorded."""
        if not self.existing_safe and len(set(self.safe_owners)) < self.threshold:
            raise ScriptRefused(
                f"a new Safe needs at least {self.threshold} different owners, but --safe-owner names "
                f"{len(set(self.safe_owners))}. Name more owners, or give an existing Safe with --safe."
            )
        if self.existing_safe and not self._has_code(self.existing_safe):
            raise ScriptRefused(
                f"there is no contract at --safe {self.existing_safe} on chain {self.session.chain_id}. "
                "Give the address of a Safe on this chain, or omit --safe to create one."
            )
        if self.existing_safe and (code := self._singleton(self.existing_safe)) != safes.SINGLETON:
            raise ScriptRefused(
                f"{self.existing_safe} runs {code}, not SafeL2 1.4.1 ({safes.SINGLETON}). On a rollup only logs show "
                "what a Safe does, and only SafeL2 writes them. Use a Safe made with SafeL2."
            )
        journal = Journal(self.out)
        begun = journal.read_header()
        if self.existing_safe:
            owner = self._read_safe(self.existing_safe)
        else:
            owner = Safe(address=safes.ZERO, threshold=self.threshold, owners=tuple(self.safe_owners))
        if owner.threshold < safes.MIN_THRESHOLD and not self.session.local:
            raise ScriptRefused(
                f"a Safe that requires only {owner.threshold} signature depends on a single key. On a live network, at "
                f"least {safes.MIN_THRESHOLD} owners must sign; for a new Safe, give --threshold {safes.MIN_THRESHOLD}."
            )
        write_deployment(recipe.rehearsed(self.facts, owner), self.out, rehearse=True)
        sending, owner = self._sending(project, recipe, owner, begun)
        self._show(recipe, sending, None if begun is None else journal)
        if not self.session.confirm():
            return False
        journal.begin(
            {
                "chainId": self.session.chain_id,
                "deployer": self.session.address,
                "firstNonce": sending.first_nonce,
                "safe": owner.address,
                "transactions": digest_of(sending.steps),
            }
        )
        with closing(journal):
            contracts = sending.execute(journal)
            deployment = recipe.record(self.facts, contracts, owner)
            write_deployment(deployment, self.out)
            journal.end()
        click.echo(f"recorded in {self.out}")
        calls = list(safes.pending(binder(project), deployment, owner.address))
        bound = self.bind(owner.address, abi=safes.safe_abi())
        safes.execute_or_print(self.session.sender, bound, calls, send=self.session.send)
        return True

    def _sending(
        self, project: Any, recipe: Recipe, owner: Safe, begun: Mapping[str, Any] | None
    ) -> tuple[Sending, Safe]:
        """Return the transactions to send, and the Safe. An interrupted deployment keeps its first nonce and its Safe.
        A new deployment starts at the account's next nonce."""
        first = self.session.nonce() if begun is None else int(begun["firstNonce"])
        if self.existing_safe:
            before: list[Step] = []
        else:
            creating = safes.creation(self.safe_owners, self.threshold, self._salt(first))
            address = self.session.read(creating) if begun is None else str(begun["safe"])
            owner = owner.model_copy(update={"address": to_checksum_address(address)})
            what = f"create a Safe, {self.threshold} of {len(self.safe_owners)}"
            before = [Step(what, creating.data, to=creating.to, address=owner.address)]
        new = Transactions(self.session.address, first + len(before), project, recipe.roles)
        recipe.add(new, owner.address)
        return Sending(self.session, [*before, *new.steps], first), owner

    def _salt(self, nonce: int) -> int:
        """Return a number unique to this deployment. A Safe's address depends on its owners and this salt."""
        return int.from_bytes(keccak(text=f"{self.session.address} {nonce}"))

    def _show(self, recipe: Recipe, sending: Sending, broke_off: Journal | None) -> None:
        self.session.announce(f"Deploying {', '.join(recipe.contracts)}")
        if broke_off is not None:
            click.echo(f"  continuing the interrupted deployment of {broke_off.path}")
        a_new_one = f"a new Safe, {self.threshold} of {len(self.safe_owners)}"
        click.echo(f"  owner and treasury: {self.existing_safe or a_new_one}")
        for line in recipe.steps:
            click.echo(f"  {line}")
        sending.show()
        click.echo(f"  record it in {self.out}")

    def _has_code(self, address: str) -> bool:
        if not is_address(address):
            raise ScriptRefused(f"--safe {address!r} is not an address. An address is 0x and 40 hexadecimal digits.")
        return len(HexBytes(self.session.ask("eth_getCode", address, "latest"))) > 0

    def _singleton(self, address: str) -> str:
        return safes.singleton_of(self.session.provider, address)

    def _read_safe(self, address: str) -> Safe:
        bound = self.bind(address, abi=safes.safe_abi())
        return Safe(address=address, threshold=int(bound.getThreshold()), owners=tuple(bound.getOwners()))


def binder(project: Any) -> Callable[[str, str], Any]:
    """Return a function that binds a contract, given its name in the deployment file and its address."""
    return lambda name, address: getattr(project, name.split(" ", 1)[0]).at(address)


def prepare(script: Script, *, safe: str | None, safe_owners: Sequence[str], threshold: int) -> Plan:
    """Return the deployment plan for the operator to confirm. Raise ScriptRefused if the deployment file says that the
    network is already deployed."""
    if script.file.is_deployed:
        raise ScriptRefused(
            f"{script.path} says that {script.file.network} is already deployed, and it can only be deployed once."
        )
    if not script.session.local:
        require_recorded(script.project)
    return Plan(script.session, script.file, script.path, script.bind, safe, safe_owners, threshold)


def require_recorded(project: Any) -> None:
    """Raise ScriptRefused unless this checkout builds the tested and published bytecode."""
    codes = {name: bytes(getattr(project, name).contract_type.get_deployment_bytecode()) for name in build.DEPLOYED}
    other = build.unrecorded(codes)
    if other:
        raise ScriptRefused(
            f"this build of {', '.join(other)} differs from scripts/_deploy/bytecode.json. Deploy from a clean "
            "checkout of the release. After a change, run python -m scripts._deploy.build and have it reviewed."
        )
