"""Deploys the stock markets: `ape run deploy_stock --network URL --account ALIAS --deployment FILE ...`."""

from typing import Any

import click

from scripts._deploy import flow, stock
from scripts._deploy.command import SENDS, command
from scripts._deploy.sending import Transactions
from scripts._deploy.session import Script, ScriptRefused


@command(account="the alias of the ape account that sends the transactions", send=SENDS)
@flow.deployment_options
@click.option("--opener", "openers", multiple=True, help="an account that may list markets (repeatable)")
@click.option("--guardian", "guardians", multiple=True, help="an account that may stop new bets (repeatable)")
def cli(script: Script, openers: tuple[str, ...], guardians: tuple[str, ...], **given: Any) -> None:
    """Deploy VestedMarkets, RoundResolver, MarketLister and Pauser, owned by a Safe."""
    plan = flow.prepare(script, **given)
    late = [one.ticker for one in plan.facts.price_feeds if stock.is_svr_proxy(script.session.provider, one.proxy)]
    if late:
        raise ScriptRefused(
            f"the feeds of {', '.join(late)} are SVR proxies, which publish rounds late; use the standard proxies."
        )
    steps = [f"take bets in {plan.facts.token('USDG').address}", f"list by {stock.bounds_of(plan.facts)}"]

    def add(new: Transactions, safe: str) -> None:
        stock.add(new, plan.facts, safe, openers=openers, guardians=guardians)

    wallets = {**stock.numbered("opener", openers), **stock.numbered("guardian", guardians)}
    plan.execute(script.project, flow.Recipe(tuple(stock.ROLES), stock.ROLES, steps, wallets, add))
