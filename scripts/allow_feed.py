"""Lets agent markets be listed on a feed: `ape run allow_feed --network URL --facts FILE --account ALIAS [--feed KEY]`.

Without --feed: on every feed of the file that is not allowed with its numbers yet. Each needs a fresh positive reading:
the publisher of a published feed posts first; of a pool feed the newest is recorded here, with --send. Prints what the
Safe's owners have to sign; a local stack, whose owners' keys are known (VPM_SAFE_OWNER_KEYS), executes it.

A pool feed's pot cap is compared with what `vpm feed cost` finds of its pools as they are. More than that is refused on
a live network, unless --evidence says where it is shown that they bear it; the deployment file keeps that.
"""

import click

from core.contracts.deployments import write_deployment
from core.contracts.feeds import PoolFeed
from scripts._deploy import feeds, pools
from scripts._deploy.command import command
from scripts._deploy.session import Script


@command(send="record readings, execute with the keys in VPM_SAFE_OWNER_KEYS")
@click.option(
    "--feed", "keys", multiple=True, help="which, like BNKR/market_cap (repeatable); all of the file if left out"
)
@click.option("--evidence", metavar="FILE|URL", help="shows that the pools of --feed bear a larger pot cap")
@click.option("--drop", is_flag=True, help="take it off the list instead; markets already listed go on")
def cli(script: Script, keys: tuple[str, ...], evidence: str | None, drop: bool) -> None:
    """Allow feeds for agent markets, or take them off the list."""
    deployment, session, safe = script.file, script.session, script.safe
    lister = script.contract("AgentLister")
    if drop and not keys:
        raise click.UsageError("--drop needs --feed KEY")
    if evidence is not None and (drop or len(keys) != 1):
        raise click.UsageError("--evidence is for one feed that is to be allowed: give one --feed KEY and no --drop")
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
        click.echo("nothing to do: the list is as the file says")
        return
    script.submit_to_safe(calls)
