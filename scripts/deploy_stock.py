"""Deploys the stock markets: `ape run deploy_stock --network URL --account ALIAS --facts deployments/vpm.json ...`."""

from pathlib import Path

import click
from ape import Contract, accounts, project
from ape.cli import ConnectedProviderCommand, network_option

from scripts._deploy import flow, stock
from scripts._deploy.session import plain_refusals


@click.command(cls=ConnectedProviderCommand)
@network_option()
@flow.deployment_options
@click.option("--opener", "openers", multiple=True, help="an account that may list markets (repeatable)")
@plain_refusals
def cli(network, provider, alias, send, facts, out, safe, safe_owners, threshold, openers):
    """Deploy VestedMarkets, RoundResolver and MarketLister, owned by a Safe."""
    plan = flow.prepare(provider, accounts, project, Contract, Path(facts), Path(out or facts), alias, send)
    steps = [f"allow {one.ticker} with feed {one.proxy}" for one in plan.facts.feeds]
    if not plan.confirm(stock.ROLES, safe, safe_owners, threshold, [*steps, *(f"let {one} list" for one in openers)]):
        return
    owner = plan.safe(safe, safe_owners, threshold)
    contracts = stock.deploy(plan.session.sender, project, plan.facts, owner.address, openers)
    wallets = {f"opener {n}" if n else "opener": one for n, one in enumerate(openers)}
    plan.finish(project, contracts, stock.ROLES, owner, wallets)
