"""Deploys the stock markets: `ape run deploy_stock --network URL --account ALIAS --facts FILE ...`."""

from typing import Any

import click
from ape import Contract, accounts, project
from ape.cli import ConnectedProviderCommand, network_option

from scripts._deploy import flow, stock
from scripts._deploy.journal import Journal
from scripts._deploy.record import numbered
from scripts._deploy.session import ScriptRefused, plain_refusals


@click.command(cls=ConnectedProviderCommand)
@network_option()
@flow.deployment_options
@click.option("--opener", "openers", multiple=True, help="an account that may list markets (repeatable)")
@click.option("--guardian", "guardians", multiple=True, help="an account that may stop new bets (repeatable)")
@plain_refusals
def cli(provider: Any, openers: tuple[str, ...], guardians: tuple[str, ...], **given: Any) -> None:
    """Deploy VestedMarkets, RoundResolver, MarketLister and Pauser, owned by a Safe."""
    plan = flow.prepare(provider, accounts, project, Contract, **given)
    late = [one.ticker for one in plan.facts.price_feeds if stock.is_late_feed(provider, one.proxy)]
    if late:
        raise ScriptRefused(
            f"the feeds of {', '.join(late)} are SVR proxies, which show rounds late; name the standard proxies."
        )
    steps = [f"take bets in {plan.facts.token('USDG').address}", f"list by {stock.bounds_of(plan.facts)}"]
    steps += [f"allow {one.ticker} with feed {one.proxy}" for one in plan.facts.price_feeds]
    steps += [f"let {one} list" for one in openers] + [f"let {one} stop new bets" for one in guardians]

    def deploy(safe: str, journal: Journal) -> None:
        stock.deploy(plan.session.sender, project, plan.facts, safe, journal, openers=openers, guardians=guardians)

    wallets = {**numbered("opener", openers), **numbered("guardian", guardians)}
    plan.carry_out(project, flow.Course(tuple(stock.ROLES), steps, wallets, deploy))
