"""Puts our contracts on the stack's chains through the same ape scripts an operator runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from core.deployments import Deployment, load_deployment, write_deployment
from core.local.anvil import ask
from scripts._deploy.handover import OWNER_KEYS_VARIABLE
from scripts._stack import chain_setup, contracts, wallets
from scripts._stack.chain_setup import Node, StockFeed
from scripts._stack.chains import LocalChain
from scripts._stack.screen import step
from scripts._stack.state import State

ROOT = Path(__file__).resolve().parents[2]

# What the local agent markets are about; the simulated source moves them.
OBSERVED = ("BNKR/market_cap", "AIXBT/market_cap", "VIRTUAL/market_cap")


async def deploy_all(chains: Mapping[str, LocalChain], state: State) -> None:
    """Deploy where it has not been done; a chain that lost its contracts (killed before it was saved) is done again."""
    missing = [chain for chain in chains.values() if not _stands(chain, state)]
    if not missing:
        return
    with step("local tokens, feeds, the Safe contracts and funded wallets"):
        for chain in missing:
            state.deployment(chain.chain.name).unlink(missing_ok=True)
            await asyncio.to_thread(_prepare_chain, chain, state)
    contracts.import_account(state.ape, contracts.ACCOUNT, wallets.DEPLOYER)
    with step("contracts, through ape"):
        for chain in missing:  # one after the other: two ape processes would write the same build folder
            await _deploy(chain, state)


def _stands(chain: LocalChain, state: State) -> bool:
    path = state.deployment(chain.chain.name)
    if not path.exists():
        return False
    known = load_deployment(path)
    there = (ask(chain.url, "eth_getCode", one.address, "latest") != "0x" for one in known.contracts.values())
    return known.is_deployed and all(there)


def facts(name: str) -> Deployment:
    return load_deployment(ROOT / "deployments" / f"{name}.json")


def _prepare_chain(chain: LocalChain, state: State) -> None:
    """Place what the live chain has, fund the local wallets, and write the facts the scripts start from."""
    node, known = Node(chain.url), facts(chain.chain.name)
    token = known.token("USDC" if chain.chain.name == "base" else "USDG").address
    if not chain.fork and chain.chain.name == "base":
        chain_setup.place_base(node, token)
    elif not chain.fork:
        feeds = [StockFeed(one.ticker, one.proxy, one.stock_token) for one in known.feeds]
        chain_setup.place_stock(node, token, feeds)
    chain_setup.fund(node, token, local_token=not chain.fork)
    local = known.model_copy(update={"kind": "local", "name": f"{known.name} (local)", "explorer_url": None})
    write_deployment(local, state.deployment(chain.chain.name))


async def _deploy(chain: LocalChain, state: State) -> None:
    path = str(state.deployment(chain.chain.name))
    common = ["--network", chain.url, "--account", contracts.ACCOUNT, "--facts", path]
    common += ["--threshold", str(wallets.SAFE_THRESHOLD)]
    for owner in wallets.SAFE_OWNERS:
        common += ["--safe-owner", owner.address]
    if chain.chain.name == "vpm":
        arguments = ["run", "deploy_stock", *common, "--opener", wallets.OPENER.address]
    else:
        arguments = ["run", "deploy_base", *common, "--publisher", wallets.PUBLISHER.address]
        arguments += ["--lister", wallets.OPENER.address, "--attester", wallets.ATTESTATION.address]
        for lane in wallets.RELAY_LANES:
            arguments += ["--relayer", lane.address]
        for key in OBSERVED:
            arguments += ["--observe", key]
    signing = {OWNER_KEYS_VARIABLE: ",".join(w.private_key for w in wallets.SAFE_OWNERS[: wallets.SAFE_THRESHOLD])}
    # Mining on demand while one account sends one transaction after the other takes seconds off the first start.
    node = Node(chain.url)
    await asyncio.to_thread(node.ask, "evm_setAutomine", True)
    try:
        await contracts.run_ape(arguments, ape_folder=state.ape, env=signing)
    finally:
        await asyncio.to_thread(node.ask, "evm_setAutomine", False)
        await asyncio.to_thread(node.ask, "evm_setIntervalMining", 1)
