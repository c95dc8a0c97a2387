"""Stops or resumes new bets: `ape run pause --network URL --facts FILE --account ALIAS [--resume]`.

The Safe is the guardian, so this prints what its owners have to sign; a local stack, whose owners' keys are known
(VPM_SAFE_OWNER_KEYS), executes it. Pausing stops new entries and new markets and nothing else.
"""

from pathlib import Path

import click
from ape import Contract, accounts, project
from ape.cli import ConnectedProviderCommand, network_option

from core.deployments import load_deployment
from scripts._deploy import handover, safe
from scripts._deploy.session import Refused, open_session, plain_refusals


@click.command(cls=ConnectedProviderCommand)
@network_option()
@click.option("--facts", required=True, help="the network's deployment file")
@click.option("--account", "alias", required=True, help="the alias of the ape account that pays the gas")
@click.option("--resume", is_flag=True, help="take bets again")
@click.option("--send", is_flag=True, help="execute with the keys in VPM_SAFE_OWNER_KEYS; without it only print")
@plain_refusals
def cli(provider, facts, alias, resume, send):
    """Stop new bets, or take them again."""
    deployment = load_deployment(Path(facts))
    session = open_session(provider, accounts, alias, send, deployment.chain_id)
    if deployment.safe is None or not deployment.is_deployed:
        raise Refused(f"{facts} says that {deployment.network} is not deployed.")
    if "VestedMarkets" in deployment.contracts:
        target = project.VestedMarkets.at(deployment.contract("VestedMarkets").address)
        data = bytes(target.setEntriesPaused.encode_input(not resume))
    else:
        target = project.SettlementWallet.at(deployment.contract("SettlementWallet").address)
        data = bytes(target.setStakesPaused.encode_input(not resume))
    what = "take bets again" if resume else "stop new bets"
    session.announce(f"To {what} on {deployment.network}")
    bound = Contract(deployment.safe.address, abi=safe.safe_abi())
    keys = handover.owner_keys() if session.send else []
    handover.accept_all(session.sender, bound, [(what, safe.SafeCall(target.address, data, what))], keys)
