"""Condemns a lying publisher's feed: `ape run condemn_feed --network URL --deployment FILE --account ALIAS --feed KEY`.

This is final and public: every unsettled market on the feed is voided, all stakes on them are refunded in full, and the
feed can never be used again. The script prints what the Safe's owners have to sign; on a local stack, where the owners'
keys are known (VPM_SAFE_OWNER_KEYS), it executes that.
"""

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
