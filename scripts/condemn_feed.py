"""Stops a publisher that lies: `ape run condemn_feed --network URL --facts FILE --account ALIAS --feed KEY`.

Final and public: every unsettled market on the feed voids, every stake on them goes back whole, and the feed can never
be used again. Prints what the Safe's owners have to sign; a local stack, whose owners' keys are known
(VPM_SAFE_OWNER_KEYS), executes it.
"""

import click

from scripts._deploy import feeds
from scripts._deploy.command import EXECUTES, command
from scripts._deploy.session import Script


@command(send=EXECUTES)
@click.option("--feed", "key", required=True, help="which, like BNKR/market_cap")
def cli(script: Script, key: str) -> None:
    """Condemn a feed for good."""
    call = feeds.condemn(script.contract("AgentLister"), script.file.agent_feed(key), script.safe)
    if call is None:
        click.echo(f"nothing to do: {key} is condemned already")
        return
    script.submit_to_safe([call])
