"""Lists one stock market: `ape run list_market --network URL --facts FILE --account ALIAS --ticker NVDA ...`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from ape import Contract, accounts, project
from ape.cli import ConnectedProviderCommand, network_option

from core.contracts.deployments import load_deployment
from scripts._deploy.session import ScriptRefused, open_session, plain_refusals

FAMILIES = {"daily": 0, "weekly": 1, "drill": 2}


def _utc(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ScriptRefused(f"'{text}' is not a time; write it like 2026-11-23T14:30:00+00:00.") from None
    if moment.tzinfo is None:
        raise ScriptRefused(f"'{text}' has no offset; write it like 2026-11-23T14:30:00+00:00.")
    return int(moment.timestamp())


@click.command(cls=ConnectedProviderCommand)
@network_option()
@click.option("--facts", required=True, help="the network's deployment file")
@click.option("--account", "alias", required=True, help="the alias of an opener's ape account")
@click.option("--ticker", required=True)
@click.option("--strike", required=True, help="when the strike is read, ISO-8601 with offset")
@click.option("--final", required=True, help="when the final price is read, ISO-8601 with offset")
@click.option("--family", type=click.Choice(sorted(FAMILIES)), default="daily", show_default=True)
@click.option("--send", is_flag=True, help="really send; without it a live network sees a dry run")
@plain_refusals
def cli(provider: Any, facts: str, alias: str, ticker: str, strike: str, final: str, family: str, send: bool) -> None:
    """List a market, seeding both of its legs from the opener's tokens."""
    deployment = load_deployment(Path(facts))
    session = open_session(provider, accounts, alias, send, deployment.chain_id)
    feed = deployment.price_feed(ticker.upper())
    lister = project.MarketLister.at(deployment.contract("MarketLister").address)
    seed, least, most = (deployment.param(name) for name in ("seedPerLeg", "minEntry", "maxEntry"))
    times = (_utc(strike), _utc(final))
    ages = (feed.max_strike_age_seconds, feed.max_final_age_seconds)
    params = (feed.proxy, *times, *ages, seed, least, most, FAMILIES[family])
    begins, ends = (datetime.fromtimestamp(moment, UTC).isoformat() for moment in times)
    session.announce(f"Listing {feed.ticker} {family}, strike {begins}, final {ends}, seed {seed} units a leg")
    if not session.goes_ahead():
        return
    token = Contract(deployment.token("USDG").address, abi=project.IERC3009.contract_type.abi)
    if token.allowance(session.sender.address, lister.address) < 2 * seed:
        token.approve(lister.address, 2 * seed, sender=session.sender)
    receipt = lister.open(params, sender=session.sender)
    opened = next(log for log in receipt.decode_logs() if log.event_name == "MarketOpened")
    click.echo(f"market {opened.marketId} is listed in {receipt.txn_hash}")
