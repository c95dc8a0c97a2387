"""Stops a publisher that lies: `ape run condemn_feed --network URL --facts FILE --account ALIAS --feed KEY`.

Final and public: every unsettled market on the feed voids, every stake on them goes back whole, and the feed can never
be used again. Prints what the Safe's owners have to sign; a local stack, whose owners' keys are known
(VPM_SAFE_OWNER_KEYS), executes it.
"""

from pathlib import Path
from typing import Any

import click
from ape import Contract, accounts, project
from ape.cli import ConnectedProviderCommand, network_option

from core.contracts.deployments import load_deployment
from scripts._deploy import feeds, handover
from scripts._deploy.session import open_session, plain_refusals


@click.command(cls=ConnectedProviderCommand)
@network_option()
@click.option("--facts", required=True, help="the network's deployment file")
@click.option("--account", "alias", required=True, help="the alias of the ape account that pays the gas")
@click.option("--feed", "key", required=True, help="which, like BNKR/market_cap")
@click.option("--send", is_flag=True, help="execute with the keys in VPM_SAFE_OWNER_KEYS; without it only print")
@plain_refusals
def cli(provider: Any, facts: str, alias: str, key: str, send: bool) -> None:
    """Condemn a feed for good."""
    deployment = load_deployment(Path(facts))
    session = open_session(provider, accounts, alias, send, deployment.chain_id)
    owner = feeds.safe_of(deployment)
    lister = feeds.lister_of(project, deployment)
    call = feeds.condemn(lister, deployment.agent_feed(key), owner)
    if call is None:
        click.echo(f"nothing to do: {key} is condemned already")
        return
    handover.put_to_safe(session, Contract, owner, [call])
