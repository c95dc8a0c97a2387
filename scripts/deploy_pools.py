"""Deploys pool feeds: `ape run deploy_pools --network URL --account ALIAS --deployment FILE --pools FILE`. Afterwards,
the Safe must allow each feed: `ape run allow_feed`."""

from pathlib import Path

import click

from core.contracts.deployments import write_deployment
from scripts._deploy import flow, pools
from scripts._deploy.command import SENDS, command
from scripts._deploy.session import Script, ScriptRefused


@command(account="the alias of the ape account that sends the transactions", send=SENDS)
@click.option(
    "--pools",
    "asked_for",
    required=True,
    help="the feeds and their pools; see deployments/pools.example.toml",
)
def cli(script: Script, asked_for: str) -> None:
    """Deploy the pool feeds of a file that are not deployed yet."""
    path, deployment, session, project = script.path, script.file, script.session, script.project
    asked = pools.read(Path(asked_for))
    if not deployment.is_deployed:
        raise ScriptRefused(f"{path} says that {deployment.network} is not deployed. Run deploy_base first.")
    keys = pools.missing(deployment, asked)
    if not keys:
        click.echo("nothing to do: every feed of the file is already deployed")
        return
    if not session.local:
        pools.require_long_windows({key: asked[key] for key in keys})
        flow.require_recorded(project)
    for pool in {each.address for key in keys for each in asked[key].pools}:
        if (fault := pools.pool_fault(session.url, deployment, pool)) is not None:
            raise ScriptRefused(fault)
    feeds = [pools.feed_of(session, deployment, key, asked[key]) for key in keys]
    session.announce(f"Deploying {', '.join(map(pools.contract_name, keys))}")
    for feed in feeds:
        through = ", ".join(f"{pool.name} {pool.address}" for pool in feed.pools)
        click.echo(f"  {feed.key}: {feed.window_seconds} s, every {feed.step_seconds} s, over {through}")
        click.echo(f"    supply {feed.supply} of {feed.token}")
        click.echo(f"    reference liquidity {', '.join(str(pool.reference_liquidity) for pool in feed.pools)}")
    write_deployment(deployment, path, rehearse=True)
    if not session.confirm():
        return
    for feed in feeds:
        made = pools.deploy(session.sender, project, feed)
        deployment = pools.with_feed(deployment, feed, made)
        write_deployment(deployment, path)  # at once, so that no deployed feed is lost
        click.echo(f"{pools.contract_name(feed.key)} at {made.address}, recorded in {path}")
        pools.record_latest_reading(session, project, made.address)
    click.echo("next, have the Safe allow them: ape run allow_feed")
