"""Allows feeds for agent markets: `ape run allow_feed --network URL --deployment FILE --account ALIAS [--feed KEY]`.
The default is every feed in the file that is not yet allowed with its current configuration.

Each feed needs a fresh positive reading. A published feed's publisher must post the reading first. With --send, this
script records a pool feed's reading itself. On a live network, a pool feed's cap may not exceed the cap that `vpm feed
cost` currently computes, unless --evidence names a document that justifies a higher cap. The deployment file records
that evidence.
"""

import click

from core.contracts.deployments import write_deployment
from core.contracts.feeds import PoolFeed
from scripts._deploy import feeds, pools
from scripts._deploy.command import command
from scripts._deploy.session import Script


@command(send="record readings, and execute with the owners' keys in VPM_SAFE_OWNER_KEYS instead of printing")
@click.option("--feed", "keys", multiple=True, help="a feed such as BNKR/market_cap (repeatable; default: all)")
@click.option("--evidence", metavar="FILE|URL", help="a document that justifies a larger cap for --feed")
@click.option("--drop", is_flag=True, help="remove the feeds from the list instead; listed markets continue")
def cli(script: Script, keys: tuple[str, ...], evidence: str | None, drop: bool) -> None:
    """Allow feeds for agent markets, or remove them from the list."""
    deployment, session, safe = script.file, script.session, script.safe
    lister = script.contract("AgentLister")
    if drop and not keys:
        raise click.UsageError("--drop needs --feed KEY")
    if evidence is not None and (drop or len(keys) != 1):
        raise click.UsageError("--evidence applies to a single feed: give one --feed KEY and no --drop")
    shown = None if evidence is None else feeds.evidence_of(evidence)
    sources = [deployment.agent_feed(key) for key in keys] or deployment.agent_feeds
    for one in () if drop else sources:
        if not isinstance(one, PoolFeed) or feeds.matches_record(lister.feed(one.address), one):
            continue
        limit = feeds.pool_limit(session.url, deployment, one)
        click.echo(feeds.check_cap(one, limit, local=session.local, evidence=shown))
        if shown is not None and not limit.covers(one):
            deployment = feeds.with_evidence(deployment, one, shown, limit)
            write_deployment(deployment, script.path)
        if session.confirm():
            pools.record_latest_reading(session, script.project, one.address)
    made = [feeds.drop(lister, one) if drop else feeds.allow(lister, one, safe) for one in sources]
    calls = [call for call in made if call is not None]
    if not calls:
        click.echo("nothing to do: the list already matches the file")
        return
    script.submit_to_safe(calls)
