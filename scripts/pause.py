"""Stops or resumes new bets: `ape run pause --network URL --facts FILE --account ALIAS [--resume]`.

With `--put-off KEY` a guardian puts off the settlement of a published feed's markets by a day, once for the feed.

With the account of a guardian it stops them at once. With any other, and for `--resume`, which only the Safe can do, it
prints what the Safe's owners have to sign; on a local stack, where their keys are known (VPM_SAFE_OWNER_KEYS), it
executes that.
Pausing stops new bets and new stock markets, and nothing else: what is staked settles and is paid.
"""

import click

from core.contracts.feeds import PublishedFeed
from scripts._deploy import safe
from scripts._deploy.command import command
from scripts._deploy.session import Script, ScriptRefused


@command(
    account="the alias of a guardian's ape account, or of who pays the gas",
    send="really send; without it a live network only sees what would be done",
)
@click.option("--resume", is_flag=True, help="take bets again; the Safe only")
@click.option("--put-off", "feed", metavar="KEY", help="put off this feed's settlements by a day, once")
def cli(script: Script, resume: bool, feed: str | None) -> None:
    """Stop new bets, take them again, or put off what a published feed settles."""
    session, pauser = script.session, script.contract("Pauser")
    is_guardian = pauser.isGuardian(session.address)
    if feed is not None:
        _put_off(script, feed, is_guardian=is_guardian)
        return
    what = "take bets again" if resume else "stop new bets"
    session.announce(f"To {what} on {script.file.network}")
    if not resume and is_guardian:
        if session.confirm():
            receipt = pauser.pause(sender=session.sender)
            click.echo(f"a guardian did: {what}, in {receipt.txn_hash}")
        return
    data = bytes((pauser.resume if resume else pauser.pause).encode_input())
    script.submit_to_safe([safe.SafeCall(pauser.address, data, what)])


def _put_off(script: Script, key: str, *, is_guardian: bool) -> None:
    session, file = script.session, script.file
    source = next((each for each in file.agent_feeds if each.key == key), None)
    if not isinstance(source, PublishedFeed):
        raise ScriptRefused(f"{key} is no feed with a publisher of {file.network}.")
    if not is_guardian:
        raise ScriptRefused(f"{session.address} is no guardian; only a guardian puts off.")
    session.announce(f"To put off the settlements on {key} by a day")
    if session.send:
        lister = script.contract("AgentLister")
        receipt = lister.putOff(source.address, sender=session.sender)
        until = lister.standing(source.address).putOffUntil
        click.echo(f"nothing on {key} settles before {until}, by {receipt.txn_hash}")
