"""Stops or resumes new bets: `ape run pause --network URL --deployment FILE --account ALIAS [--resume]`. With a
guardian's account, the script stops new bets at once. With any other account, and for `--resume`, it prints the
transaction that the Safe's owners have to sign. Existing stakes are settled and paid in any case."""

import click

from core.contracts.feeds import PublishedFeed
from scripts._deploy import safe
from scripts._deploy.command import command
from scripts._deploy.session import Script, ScriptRefused


@command(
    account="the alias of a guardian's ape account, or of the account that pays for gas",
    send="send the transactions; without this option, live networks get a dry run",
)
@click.option("--resume", is_flag=True, help="accept bets again (only the Safe can)")
@click.option("--put-off", "feed", metavar="KEY", help="postpone this feed's settlements by a day (once per feed)")
def cli(script: Script, resume: bool, feed: str | None) -> None:
    """Stop new bets, accept them again, or postpone a published feed's settlements."""
    session, pauser = script.session, script.contract("Pauser")
    is_guardian = pauser.isGuardian(session.address)
    if feed is not None:
        _put_off(script, feed, is_guardian=is_guardian)
        return
    what = "accept bets again" if resume else "stop new bets"
    session.announce(f"To {what} on {script.file.network}")
    if not resume and is_guardian:
        if session.confirm():
            receipt = pauser.pause(sender=session.sender)
            click.echo(f"done by the guardian: {what} ({receipt.txn_hash})")
        return
    data = bytes((pauser.resume if resume else pauser.pause).encode_input())
    script.submit_to_safe([safe.SafeCall(pauser.address, data, what)])


def _put_off(script: Script, key: str, *, is_guardian: bool) -> None:
    session, file = script.session, script.file
    source = next((each for each in file.agent_feeds if each.key == key), None)
    if not isinstance(source, PublishedFeed):
        raise ScriptRefused(f"{key} is not a published feed of {file.network}.")
    if not is_guardian:
        raise ScriptRefused(f"{session.address} is not a guardian; only a guardian can postpone settlements.")
    session.announce(f"Postpone the settlements on {key} by a day")
    if session.send:
        lister = script.contract("AgentLister")
        receipt = lister.putOff(source.address, sender=session.sender)
        until = lister.standing(source.address).putOffUntil
        click.echo(f"no market on {key} settles before {until} ({receipt.txn_hash})")
