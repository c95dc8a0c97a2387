"""What all scripts share: the account, dry runs and error messages."""

from __future__ import annotations

import asyncio
import functools
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from core.chain import ChainClient
from core.chain.contract import Call, decode_revert
from core.chain.provider import ChainProvider
from core.contracts.abi import all_errors
from core.contracts.deployments import Deployment, validation_sentences
from core.errors import VpmError
from core.hexadecimal import bytes_of
from scripts._deploy import safe as safes

# Clients of networks with free transactions; on all others a script is a dry run unless given --send.
LOCAL_CLIENTS = ("anvil", "hardhat", "test")


class ScriptRefused(click.ClickException):
    """The script cannot go on; the message says why and what to do instead."""


@dataclass(frozen=True)
class DeploySession:
    chain_id: int
    sender: Any
    send: bool
    provider: Any
    local: bool
    _confirmed: list[bool] = field(default_factory=list)

    @property
    def address(self) -> str:
        return str(self.sender.address)

    @property
    def url(self) -> str:
        return str(self.provider.http_uri)

    def announce(self, what: str) -> None:
        mode = "sending" if self.send else "dry run (use --send to send)"
        click.echo(f"{what} on chain {self.chain_id} as {self.address}: {mode}")

    def confirm(self) -> bool:
        """Return whether to send. Before the first transactions that cost real money, ask for confirmation and unlock
        the account."""
        if self.send and not self.local and not self._confirmed:
            click.confirm("Send these transactions?", abort=True)
            unlock(self.sender)
            self._confirmed.append(True)
        return self.send

    def ask(self, method: str, *params: Any) -> Any:
        return self.provider.make_request(method, list(params))

    def read(self, call: Call) -> Any:
        """Call a view function from the account at the newest block. Return the decoded result."""
        asked = {**call.parameters(), "from": self.address}
        return call.function.decode(bytes_of(str(self.ask("eth_call", asked, "latest"))))

    def nonce(self) -> int:
        return int(self.ask("eth_getTransactionCount", self.address, "latest"), 16)

    def signed(self, to: str | None, data: bytes, nonce: int) -> bytes:
        """Return a transaction with a gas limit and current fees, signed by the account and ready to send."""
        receiver = {} if to is None else {"receiver": to}
        made = self.provider.network.ecosystem.create_transaction(
            sender=self.address, data=data, nonce=nonce, chain_id=self.chain_id, **receiver
        )
        return bytes(self.sender.sign_transaction(self.sender.prepare_transaction(made)).serialize_transaction())


T = TypeVar("T")


def ask_node(url: str, ask: Callable[[ChainClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with ChainProvider([url], chain_id=None, timeout_seconds=30.0) as rpc:
            return await ask(ChainClient(rpc))

    return asyncio.run(run())


def unlock(sender: Any) -> None:
    """Unlock the account. The passphrase comes from APE_ACCOUNTS_<alias>_PASSPHRASE, from the file named by
    APE_ACCOUNTS_<alias>_PASSPHRASE_FILE, or from the keyboard."""
    from ape.exceptions import AccountsError  # noqa: PLC0415 - only the environment of the ape scripts has it

    file = os.environ.get(f"APE_ACCOUNTS_{sender.alias}_PASSPHRASE_FILE")
    try:
        sender.set_autosign(True, passphrase=Path(file).read_text().rstrip("\r\n") if file else None)
    except OSError as error:
        raise ScriptRefused(
            f"the passphrase file of '{sender.alias}', {file}, cannot be read: {error.strerror}."
        ) from None
    except AccountsError:
        raise ScriptRefused(f"The passphrase of '{sender.alias}' is wrong. Nothing was sent.") from None


def is_local(provider: Any) -> bool:
    """Return whether the node is a development node. The client name decides, because anvil keeps it even on forks of
    live chains."""
    return any(name in str(provider.client_version).lower() for name in LOCAL_CLIENTS)


def open_session(provider: Any, accounts: Any, alias: str, send: bool, expected_chain_id: int) -> DeploySession:
    """Check the chain id and load the account. On local nodes, transactions are sent even if `send` is False."""
    if provider.chain_id != expected_chain_id:
        raise ScriptRefused(
            f"this node serves chain {provider.chain_id}, but the deployment file is for chain {expected_chain_id}. "
            "Give --network a node of that chain."
        )
    try:
        sender = accounts.load(alias)
    except KeyError:
        raise ScriptRefused(f"ape has no account '{alias}'. Import one with: ape accounts import {alias}") from None
    local = is_local(provider)
    if local:
        unlock(sender)
    return DeploySession(provider.chain_id, sender, send or local, provider, local)


@dataclass(frozen=True)
class Script:
    path: Path
    file: Deployment
    session: DeploySession
    project: Any
    bind: Callable[..., Any]

    @property
    def safe(self) -> str:
        """Return the Safe's address. Raise ScriptRefused if the deployment file has none."""
        if not self.file.is_deployed:
            raise ScriptRefused(f"{self.path} says that {self.file.network} is not deployed.")
        if self.file.safe is None:
            raise ScriptRefused(f"{self.path} does not name a Safe.")
        return self.file.safe.address

    def contract(self, name: str) -> Any:
        return getattr(self.project, name).at(self.file.contract(name).address)

    def submit_to_safe(self, calls: Iterable[safes.SafeCall]) -> None:
        bound = self.bind(self.safe, abi=safes.safe_abi())
        safes.execute_or_print(self.session.sender, bound, calls, send=self.session.send)


def _revert_data(error: BaseException | None) -> bytes | None:
    """Return a view's revert data from the node's message. ape itself drops the selector of an error that a library
    defines."""
    while error is not None:
        custom_error = re.search(r"custom error 0x([0-9a-f]{8}): ?([0-9a-f]*)", str(error), re.IGNORECASE)
        if custom_error is not None:
            return bytes.fromhex(custom_error[1] + custom_error[2])
        error = getattr(error, "base_err", None) or error.__cause__ or error.__context__
    return None


def _revert_reason(error: Exception) -> str | None:
    """Return a contract's revert reason in words, or None if the error is not a revert."""
    ape = sys.modules.get("ape.exceptions")  # only ape's environment has it
    if ape is None or not isinstance(error, ape.ContractLogicError):
        return None
    said = str(error.revert_message or error)
    if isinstance(error, ape.CustomError):  # ape knew the contract's ABI and has decoded the arguments
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", error.name).lower()
        return f"The call reverted: {words} ({said})."
    data = bytes_of(said) if said.startswith("0x") else _revert_data(error)
    return said if data is None else decode_revert(data, all_errors())[2]


def readable_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Print reverts and our own checks' errors as one sentence, and exit with 1."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except VpmError as error:
            raise ScriptRefused(error.sentence()) from None
        except ValidationError as error:
            raise ScriptRefused(f"The deployment file would be invalid: {validation_sentences(error)}.") from None
        except Exception as error:
            reason = _revert_reason(error)
            if reason is None:
                raise
            raise ScriptRefused(reason) from None

    return call
