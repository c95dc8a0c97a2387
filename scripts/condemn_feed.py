"""Condemns the feed of a lying publisher: `ape run condemn_feed --network URL --deployment FILE --account ALIAS --feed
KEY`. This is final. Every unsettled market on the feed is voided with full refunds, and the feed can never be used
again."""

import click

from scripts._deploy import feeds
from scripts._deploy.command import EXECUTES, command
from scripts._deploy.session import Script


@command(send=EXECUTES)
@click.option("--feed", "key", required=True, help="the feed, such as BNKR/market_cap")
def cli(script: Script, key: str) -> None:
    """Condemn a feed for good."""
    call = feeds.condemn(script.contract("AgentLister"), script.file.agent_feed(key), script.safe)
    if call is None:
        click.echo(f"nothing to do: {key} is already condemned")
        return
    script.submit_to_safe([call])
