"""Hands ownership to the Safe: `ape run hand_over --network URL --deployment FILE --account ALIAS`. The script prints
the transactions for the Safe's owners to sign. If VPM_SAFE_OWNER_KEYS contains the owners' keys, as on a local stack,
it executes the transactions."""

import click

from scripts._deploy import flow, safe
from scripts._deploy.command import EXECUTES, command
from scripts._deploy.session import Script


@command(send=EXECUTES)
def cli(script: Script) -> None:
    """Hand ownership to the Safe."""
    calls = list(safe.pending(flow.binder(script.project), script.file, script.safe))
    if not calls:
        click.echo("nothing to hand over: the Safe has accepted everything")
        return
    script.submit_to_safe(calls)
