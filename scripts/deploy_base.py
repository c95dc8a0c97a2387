"""Deploys the Base side: `ape run deploy_base --network URL --account ALIAS --deployment deployments/base.json ...`."""

from collections.abc import Mapping
from typing import Any

import click

from core.contracts.deployments import ContractInfo
from core.contracts.feeds import PublishedFeed
from core.money import USD
from scripts._deploy import base, flow
from scripts._deploy.command import SENDS, command
from scripts._deploy.sending import Transactions
from scripts._deploy.session import Script

UINT32 = click.IntRange(1, 2**32 - 1)


@command(account="the alias of the ape account that sends the transactions", send=SENDS)
@flow.deployment_options
@click.option("--lister", "listers", multiple=True, help="an account that may list markets (repeatable)")
@click.option("--relayer", "relayers", multiple=True, help="an account that may settle x402 payments (repeatable)")
@click.option("--creditor", "creditors", multiple=True, help="an account that may book payments sent directly")
@click.option("--guardian", "guardians", multiple=True, help="an account that may stop new stakes (repeatable)")
@click.option("--publisher", required=True, help="the account that posts observations")
@click.option("--attester", help="the address of the API's attestation key, recorded for verifiers")
@click.option("--observe", "feeds", multiple=True, help="a feed to deploy, such as BNKR/market_cap (repeatable)")
@click.option(
    "--lag", type=UINT32, default=600, show_default=True, help="maximum age of a posted observation, in seconds"
)
@click.option("--memory", type=int, help="maximum silence of a feed, in seconds (default: the lag)")
@click.option("--max-age", type=int, default=3_600, show_default=True, help="maximum age of a deciding reading")
@click.option("--pot-cap", type=int, default=500, show_default=True, help="cap of each market, in USD")
@click.option(
    "--feed-cap", type=int, default=12_000, show_default=True, help="cap of a feed's unsettled markets together, in USD"
)
def cli(
    script: Script,
    listers: tuple[str, ...],
    relayers: tuple[str, ...],
    creditors: tuple[str, ...],
    guardians: tuple[str, ...],
    publisher: str,
    attester: str | None,
    feeds: tuple[str, ...],
    lag: int,
    memory: int | None,
    max_age: int,
    pot_cap: int,
    feed_cap: int,
    **given: Any,
) -> None:
    """Deploy the settlement wallet, its resolver, lister and pauser, and a feed per --observe, owned by a Safe."""
    plan = flow.prepare(script, **given)
    holders = base.Holders(listers, relayers, creditors, guardians, publisher)
    steps = [f"take stakes in {plan.facts.token('USDC').address}", f"list within {base.bounds_of(plan.facts)}"]

    def add(new: Transactions, safe: str) -> None:
        base.add(new, plan.facts, safe, holders=holders, feeds=feeds, max_lag_seconds=lag)

    def sources(contracts: Mapping[str, ContractInfo]) -> list[PublishedFeed]:
        return [
            PublishedFeed(
                kind="published",
                key=key,
                address=contracts[base.contract_name(key)].address,
                max_lag_seconds=lag,
                memory_seconds=lag if memory is None else memory,
                max_age_seconds=max_age,
                pot_cap_units=pot_cap * USD,
                feed_cap_units=feed_cap * USD,
            )
            for key in feeds
        ]

    recipe = flow.Recipe(
        contracts=(*base.ROLES, *map(base.contract_name, feeds)),
        roles=base.ROLES,
        steps=steps,
        wallets=holders.wallets() | ({"attestation": attester} if attester else {}),
        add=add,
        sources=sources,
    )
    if plan.execute(script.project, recipe):
        click.echo("next, after the publisher has posted readings, have the Safe allow the feeds: ape run allow_feed")
