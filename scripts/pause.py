"""Stops or resumes new bets: `ape run pause --network URL --facts FILE --account ALIAS [--resume]`.

With `--put-off KEY` a guardian puts off the settlement of a published feed's markets by a day, once for the feed.

With the account of a guardian it stops them at once. Anybody else gets what the Safe's owners have to sign, and so does
`--resume`, which only the Safe can do; a local stack, whose owners' keys are known (VPM_SAFE_OWNER_KEYS), executes it.
Pausing stops new bets and new stock markets, and nothing else: what is staked settles and is paid.
"""

from pathlib import Path
from typing import Any

import click
from ape import Contract, accounts, project
from ape.cli import ConnectedProviderCommand, network_option

from core.contracts.deployments import Deployment, load_deployment
from core.contracts.feeds import PublishedFeed
from scripts._deploy import handover, safe
from scripts._deploy.session import DeploySession, ScriptRefused, open_session, plain_refusals


@click.command(cls=ConnectedProviderCommand)
@network_option()
@click.option("--facts", required=True, help="the network's deployment file")
@click.option("--account", "alias", required=True, help="the alias of a guardian's ape account, or of who pays the gas")
@click.option("--resume", is_flag=True, help="take bets again; the Safe only")
@click.option("--put-off", "feed", metavar="KEY", help="put off this feed's settlements by a day, once")
@click.option("--send", is_flag=True, help="really send; without it a live network only sees what would be done")
@plain_refusals
def cli(provider: Any, facts: str, alias: str, resume: bool, feed: str | None, send: bool) -> None:
    """Stop new bets, take them again, or put off what a published feed settles."""
    deployment = load_deployment(Path(facts))
    session = open_session(provider, accounts, alias, send, deployment.chain_id)
    if deployment.safe is None or not deployment.is_deployed:
        raise ScriptRefused(f"{facts} says that {deployment.network} is not deployed.")
    pauser = project.Pauser.at(deployment.contract("Pauser").address)
    if feed is not None:
        _put_off(session, pauser, deployment, feed)
        return
    what = "take bets again" if resume else "stop new bets"
    session.announce(f"To {what} on {deployment.network}")
    if not resume and pauser.isGuardian(session.sender.address):
        if session.goes_ahead():
            receipt = pauser.pause(sender=session.sender)
            click.echo(f"a guardian did: {what}, in {receipt.txn_hash}")
        return
    data = bytes((pauser.resume if resume else pauser.pause).encode_input())
    call = safe.SafeCall(pauser.address, data, what)
    handover.put_to_safe(session, Contract, deployment.safe.address, [call])


def _put_off(session: DeploySession, pauser: Any, deployment: Deployment, key: str) -> None:
    source = next((each for each in deployment.agent_feeds if each.key == key), None)
    if not isinstance(source, PublishedFeed):
        raise ScriptRefused(f"{key} is no feed with a publisher of {deployment.network}.")
    if not pauser.isGuardian(session.sender.address):
        raise ScriptRefused(f"{session.sender.address} is no guardian; only a guardian puts off.")
    session.announce(f"To put off the settlements on {key} by a day")
    if session.send:
        lister = project.AgentLister.at(deployment.contract("AgentLister").address)
        receipt = lister.putOff(source.address, sender=session.sender)
        until = lister.standing(source.address).putOffUntil
        click.echo(f"nothing on {key} settles before {until}, by {receipt.txn_hash}")
