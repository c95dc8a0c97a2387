"""Deploys the stock markets: `ape run deploy_stock --network URL --account ALIAS --facts FILE ...`."""

from pathlib import Path
from typing import Any

import click
from ape import Contract, accounts, project
from ape.cli import ConnectedProviderCommand, network_option

from scripts._deploy import flow, stock
from scripts._deploy.session import plain_refusals


@click.command(cls=ConnectedProviderCommand)
@network_option()
@flow.deployment_options
@click.option("--opener", "openers", multiple=True, help="an account that may list markets (repeatable)")
@click.option("--guardian", "guardians", multiple=True, help="an account that may stop new bets (repeatable)")
@plain_refusals
def cli(
    network: Any,
    provider: Any,
    alias: str,
    send: bool,
    facts: str,
    out: str | None,
    safe: str | None,
    safe_owners: tuple[str, ...],
    threshold: int,
    openers: tuple[str, ...],
    guardians: tuple[str, ...],
) -> None:
    """Deploy VestedMarkets, RoundResolver, MarketLister and Pauser, owned by a Safe."""
    plan = flow.prepare(provider, accounts, project, Contract, Path(facts), Path(out or facts), alias, send)
    steps = [f"allow {one.ticker} with feed {one.proxy}" for one in plan.facts.price_feeds]
    steps += [f"let {one} list" for one in openers] + [f"let {one} stop new bets" for one in guardians]
    if not plan.confirm(stock.ROLES, safe, safe_owners, threshold, steps):
        return
    owner = plan.safe(safe, safe_owners, threshold)
    contracts = stock.deploy(
        plan.session.sender, project, plan.facts, owner.address, openers=openers, guardians=guardians
    )
    wallets = {f"opener {n}" if n else "opener": one for n, one in enumerate(openers)}
    wallets |= {f"guardian {n}" if n else "guardian": one for n, one in enumerate(guardians)}
    plan.finish(project, contracts, stock.ROLES, owner, wallets)
