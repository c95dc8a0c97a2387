"""What the Safe still has to accept: `ape run hand_over --network URL --facts FILE --account ALIAS`.

Prints each transaction for the owners to sign in their own wallets; a local stack, whose owners' keys are known
(VPM_SAFE_OWNER_KEYS), executes them.
"""

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
