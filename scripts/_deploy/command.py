"""Turns functions into ape commands, with the common options and one-sentence errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from ape import Contract, accounts, project
from ape.cli import ConnectedProviderCommand, network_option

from core.contracts.deployments import load_deployment
from scripts._deploy.session import Script, open_session, readable_errors

SENDS = "send the transactions; without this option, live networks get a dry run"
EXECUTES = "execute with the owners' keys in VPM_SAFE_OWNER_KEYS instead of printing"


def connected(function: Callable[..., Any]) -> Any:
    file = click.option("--deployment", required=True, help="the network's deployment file")
    command: Any = click.command(cls=ConnectedProviderCommand)
    return command(network_option()(file(readable_errors(function))))


def command(*, account: str = "the alias of the ape account that pays for gas", send: str) -> Callable[..., Any]:
    """Return a decorator that makes an ape command from a function whose parameters are a `Script` and some options."""

    def decorate(function: Callable[..., Any]) -> Any:
        def cli(provider: Any, deployment: str, alias: str, send: bool, **own: Any) -> None:
            path = Path(deployment)
            file = load_deployment(path)
            session = open_session(provider, accounts, alias, send, file.chain_id)
            function(Script(path, file, session, project, Contract), **own)

        cli.__doc__ = function.__doc__
        cli.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        for option in (
            click.option("--send", is_flag=True, help=send),
            click.option("--account", "alias", required=True, help=account),
        ):
            option(cli)
        return connected(cli)

    return decorate
