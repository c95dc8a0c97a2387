"""What the Safe still has to accept: `ape run hand_over --network URL --facts FILE --account ALIAS`.

Prints each transaction for the owners to sign in their own wallets; a local stack, whose owners' keys are known
(VPM_SAFE_OWNER_KEYS), executes them.
"""

from pathlib import Path
from typing import Any

import click
from ape import Contract, accounts, project
from ape.cli import ConnectedProviderCommand, network_option

from core.contracts.deployments import load_deployment
from scripts._deploy import flow, handover
from scripts._deploy.session import ScriptRefused, open_session, plain_refusals


@click.command(cls=ConnectedProviderCommand)
@network_option()
@click.option("--facts", required=True, help="the network's deployment file")
@click.option("--account", "alias", required=True, help="the alias of the ape account that pays the gas")
@click.option("--send", is_flag=True, help="execute with the keys in VPM_SAFE_OWNER_KEYS; without it only print")
@plain_refusals
def cli(provider: Any, facts: str, alias: str, send: bool) -> None:
    """Hand ownership to the Safe."""
    deployment = load_deployment(Path(facts))
    if deployment.safe is None:
        raise ScriptRefused(f"{facts} names no Safe to hand over to.")
    session = open_session(provider, accounts, alias, send, deployment.chain_id)
    calls = list(handover.pending(flow.binder(project), deployment))
    if not calls:
        click.echo("nothing to hand over: the Safe has accepted everything")
        return
    handover.put_to_safe(session, Contract, deployment.safe.address, calls)
