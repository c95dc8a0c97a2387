"""Deploys the Base side: `ape run deploy_base --network URL --account ALIAS --facts deployments/base.json ...`."""

from pathlib import Path

import click
from ape import Contract, accounts, project
from ape.cli import ConnectedProviderCommand, network_option

from core.deployments import ObservationSource
from scripts._deploy import base, flow
from scripts._deploy.session import plain_refusals


@click.command(cls=ConnectedProviderCommand)
@network_option()
@flow.deployment_options
@click.option("--lister", "listers", multiple=True, help="an account that may list markets (repeatable)")
@click.option("--relayer", "relayers", multiple=True, help="an account that may settle x402 payments (repeatable)")
@click.option("--publisher", required=True, help="the account that posts observations")
@click.option("--attester", help="the address of the API's attestation key, for those who verify its signatures")
@click.option("--observe", "feeds", multiple=True, help="what to observe, like BNKR/market_cap (repeatable)")
@plain_refusals
def cli(
    network,
    provider,
    alias,
    send,
    facts,
    out,
    safe,
    safe_owners,
    threshold,
    listers,
    relayers,
    publisher,
    attester,
    feeds,
):
    """Deploy SettlementWallet and one ObservationFeed per --observe, owned by a Safe."""
    plan = flow.prepare(provider, accounts, project, Contract, Path(facts), Path(out or facts), alias, send)
    roles = base.roles(feeds)
    steps = [f"let {one} list" for one in listers] + [f"let {one} settle" for one in relayers]
    if not plan.confirm(roles, safe, safe_owners, threshold, [*steps, f"let {publisher} post observations"]):
        return
    owner = plan.safe(safe, safe_owners, threshold)
    contracts = base.deploy(
        plan.session.sender,
        project,
        plan.facts,
        owner.address,
        listers=listers,
        relayers=relayers,
        publisher=publisher,
        feeds=feeds,
    )
    wallets = {"publisher": publisher}
    wallets |= {f"lister {n}" if n else "lister": one for n, one in enumerate(listers)}
    wallets |= {f"relay lane {n}": one for n, one in enumerate(relayers)}
    wallets |= {"attestation": attester} if attester else {}
    sources = [ObservationSource(key=key, address=contracts[base.contract_name(key)].address) for key in feeds]
    plan.finish(project, contracts, roles, owner, wallets, sources)
