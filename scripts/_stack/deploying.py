"""Deploys our contracts on the stack's chains with the ape scripts that operators use."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from core.chain import Contract
from core.contracts.abi import abi
from core.contracts.deployments import Deployment, load_deployment, write_deployment
from core.contracts.feeds import AgentFeed, PoolFactory
from core.hexadecimal import bytes_of
from core.outbox import CREDIT, KEEPER, LISTER, OPENER, PUBLISHER, RELAY
from core.paths import REPOSITORY
from keeper.sources import first_value
from scripts._deploy.build import compile_all
from scripts._deploy.safe import OWNER_KEYS_VARIABLE
from scripts._deploy.sending import Journal
from scripts._local.anvil import ask
from scripts._local.process import run_together
from scripts._stack import agent_pools, chain_setup, wallets
from scripts._stack.agent_pools import AgentPools
from scripts._stack.ape import ACCOUNT, Ape, ape_lock
from scripts._stack.chain_setup import LocalNode
from scripts._stack.parts import LocalChain
from scripts._stack.state import State, write_atomically, write_json

OBSERVED = "BNKR/daily_volume"
"""The published feed of a local Base, which pools cannot measure. A simulated source moves it."""
OBSERVED_ON_FORKS = tuple(token.key for token in agent_pools.TOKENS)
"""On a fork of the live chain we cannot move the pools, so market caps are published there."""

# Short enough that a ten-minute round closes, is measured and pays while a user watches.
LAG_SECONDS = 10
MEMORY_SECONDS = 60  # several posts of the publisher; a round without a post voids
MAX_AGE_SECONDS = 3_600
POT_CAP_USD = 100_000
FEED_CAP_USD = 64 * POT_CAP_USD  # not real money, so any number of local markets may be open
DISPUTE_WINDOW_SECONDS = 60

# Pool feeds. On a live network the Safe allows no window under half an hour and no pot cap so far above the few dollars
# that `vpm feed cost` finds for these pools. Local money is not real, and local markets should be quick to watch.
POOL_WINDOW_SECONDS = 120
POOL_STEP_SECONDS = 10
POOL_MAX_QUIET_SECONDS = 30 * 86_400  # there are no swaps while the stack is stopped, or without the demo
STALL_POLL_SECONDS, STALLED_SECONDS = 0.5, 3.0
HISTORY_SWAP_SECONDS = 120  # between the trader's swaps in the history


async def deploy_all(chains: Sequence[LocalChain], state: State, started: Ape) -> None:
    """Deploy to the chains that lack the contracts, and write a summary for `vpm up`. If a chain was killed before its
    state was saved, it has lost its contracts, so they are deployed again."""
    await compile_all()
    missing = [chain for chain in chains if not _is_deployed(chain, state)]
    if missing:
        wallets.import_account(state.ape, ACCOUNT, wallets.DEPLOYER)
        await run_together(*(_deploy_chain(chain, state, started) for chain in missing))
    write_json(state.deployed, _summary(chains, state))


async def _deploy_chain(chain: LocalChain, state: State, started: Ape) -> None:
    """Deploy the contracts to one chain and save the chain. Only one chain at a time can use ape; all other steps run
    concurrently."""
    file = state.deployment(chain.name)
    for old in (file, Journal(file).path):  # left by a start that was stopped during a deployment
        old.unlink(missing_ok=True)
    await asyncio.to_thread(_prepare_chain, chain, state)
    print(f"{chain.name} has its tokens, feeds, Safe contracts and funded wallets", flush=True)
    await _deploy(chain, state, started)
    print(f"{chain.name} has the contracts", flush=True)
    await asyncio.to_thread(_save, chain, state)


def _save(chain: LocalChain, state: State) -> None:
    """Save a chain before its contracts are indexed. anvil itself only saves every 30 seconds. If the stack were killed
    before that, the chain would lose its contracts, but the database would still have them."""
    dump = gzip.decompress(bytes_of(ask(chain.url, "anvil_dumpState", timeout_seconds=60)))
    write_atomically(state.chain(chain.name), dump)


def _summary(chains: Sequence[LocalChain], state: State) -> dict[str, Any]:
    """Return what `vpm up` shows and passes on: addresses by name, public wallets, and keys by setting name."""
    return {
        "addresses": {each.name: _addresses(load_deployment(state.deployment(each.name))) for each in chains},
        "dev_wallets": [{"address": w.address, "private_key": w.private_key} for w in wallets.DEV],
        "keys": {
            "VPM_ATTESTATION_KEY": wallets.ATTESTATION.private_key,
            "VPM_DEMO_WALLET_KEY": wallets.DEMO.private_key,
            "VPM_RELAYER_KEYS": ",".join(lanes()),
        },
    }


def _addresses(deployment: Deployment) -> dict[str, str]:
    addresses = {symbol: token.address for symbol, token in deployment.tokens.items()}
    addresses |= {name: contract.address for name, contract in deployment.contracts.items()}
    if deployment.safe is not None:
        addresses["Safe"] = deployment.safe.address
    for feed in deployment.price_feeds:
        addresses[f"{feed.ticker} feed"] = feed.proxy
        addresses[feed.ticker] = feed.stock_token
    return addresses


def lanes() -> list[str]:
    """Return the lanes with their local keys, in the format of core/config/lanes.py."""
    first, *others = (w.private_key for w in wallets.RELAY_LANES)
    opener, publisher = wallets.OPENER.private_key, wallets.PUBLISHER.private_key
    return [
        f"{RELAY}+{KEEPER}={first}",
        *(f"{RELAY}={key}" for key in others),
        f"stock:{OPENER}={opener}",
        f"base:{LISTER}={opener}",
        f"base:{CREDIT}={wallets.CREDITOR.private_key}",
        f"base:{PUBLISHER}={publisher}",
    ]


def _is_deployed(chain: LocalChain, state: State) -> bool:
    path = state.deployment(chain.name)
    if not path.exists():
        return False
    record = load_deployment(path)
    there = (ask(chain.url, "eth_getCode", one.address, "latest") != "0x" for one in record.contracts.values())
    return record.is_deployed and all(there) and all(_is_allowed(chain, record, one) for one in record.agent_feeds)


def _is_allowed(chain: LocalChain, record: Deployment, source: AgentFeed) -> bool:
    """Return whether a feed was ever allowed, which is the last step of a deployment. The lister keeps the
    configuration of a dropped feed, so a dropped feed also counts."""
    lister = Contract(record.contract("AgentLister").address, abi("AgentLister"))
    call = lister.call("feed", source.address)
    answer = ask(chain.url, "eth_call", call.parameters(), "latest")
    return bool(call.function.decode(bytes_of(answer))["memory_"])


def facts(name: str) -> Deployment:
    return load_deployment(REPOSITORY / "deployments" / f"{name}.json")


def _prepare_chain(chain: LocalChain, state: State) -> None:
    node, live = LocalNode(chain.url), facts(chain.name)
    today = int(time.time()) if chain.today is None else chain.today
    token = live.token("USDC" if chain.name == "base" else "USDG").address
    if not chain.fork and chain.name == "base":
        chain_setup.place_base(node, token)
        _place_pools(node, token, state, chain.today)
    elif not chain.fork:
        chain_setup.place_stock(node, token, live.price_feeds, today)
    chain_setup.fund(node, token)
    local: dict[str, Any] = {"kind": "local", "name": f"{live.name} (local)", "explorer_url": None}
    if chain.name == "base" and state.pools.exists():
        factory = AgentPools.load(state.pools).exchange.factory
        local["pool_factories"] = (PoolFactory(name="Uniswap v3", address=factory),)
    if chain.name == "base":
        local["params"] = {**live.params, "disputeWindowSeconds": DISPUTE_WINDOW_SECONDS}
    else:
        local["params"] = {**live.params, "settleDelaySeconds": 0}  # its markets are short, and its rounds never late
    write_deployment(live.model_copy(update=local), state.deployment(chain.name))


def _place_pools(node: LocalNode, usdc: str, state: State, until: int | None) -> None:
    """Deploy the agents' tokens and pools with a history of swaps, and write the request file for their feeds."""
    if state.pools.exists() and agent_pools.exist(node, AgentPools.load(state.pools)):
        return  # an earlier start got this far
    with _automining(node):
        agent_pools.place_weth(node)
        pools = agent_pools.build(node, usdc)
        agent_pools.make_history(node, pools, until, HISTORY_SWAP_SECONDS)
    numbers = {
        "window": POOL_WINDOW_SECONDS,
        "step": POOL_STEP_SECONDS,
        "max_quiet": POOL_MAX_QUIET_SECONDS,
        "max_age": MAX_AGE_SECONDS,
        "pot_cap": POT_CAP_USD,
        "feed_cap": FEED_CAP_USD,
    }
    state.pool_feeds.write_text(agent_pools.feed_requests_toml(pools, numbers))
    pools.save(state.pools)


async def _deploy(chain: LocalChain, state: State, started: Ape) -> None:
    path = str(state.deployment(chain.name))
    common = ["--network", chain.url, "--account", ACCOUNT, "--deployment", path]
    safe = ["--threshold", str(wallets.SAFE_THRESHOLD)]
    for owner in wallets.SAFE_OWNERS:
        safe += ["--safe-owner", owner.address]
    signing = {OWNER_KEYS_VARIABLE: ",".join(w.private_key for w in wallets.SAFE_OWNERS[: wallets.SAFE_THRESHOLD])}

    async def run(script: str, *arguments: str) -> None:
        async with ape_lock():
            await started.run(["run", script, *common, *arguments], signing)

    # Automining takes seconds off the first start, in which one account sends one transaction after the other.
    node = LocalNode(chain.url)
    with _automining(node):
        if chain.name == "stock":
            named = ["--opener", wallets.OPENER.address, "--guardian", wallets.GUARDIAN.address]
            await run("deploy_stock", *safe, *named)
        else:
            await run("deploy_base", *safe, *_base_options(OBSERVED_ON_FORKS if chain.fork else (OBSERVED,)))
            if not chain.fork:
                await run("deploy_pools", "--pools", str(state.pool_feeds))
            await asyncio.to_thread(_first_readings, node, load_deployment(Path(path)))
            await run("allow_feed")


@contextmanager
def _automining(node: LocalNode) -> Iterator[None]:
    """Mine a block for each transaction in this context. Afterwards, mine one block a second again, unless the node was
    already automining."""
    automined_before = node.ask("anvil_getAutomine")
    node.ask("evm_setAutomine", True)
    finished = Event()
    nudging = Thread(target=_mine_stalled, args=(node, finished), daemon=True)
    nudging.start()
    try:
        yield
    finally:
        finished.set()
        nudging.join()
        if not automined_before:
            node.ask("evm_setAutomine", False)
            node.ask("evm_setIntervalMining", 1)


def _mine_stalled(node: LocalNode, finished: Event) -> None:
    """Mine a block whenever a transaction stays pending, because anvil's automining can miss one on a busy machine."""
    last, since = None, 0.0
    while not finished.wait(STALL_POLL_SECONDS):
        try:
            pending, head = node.ask("txpool_status")["pending"], node.ask("eth_blockNumber")
            stalled = int(pending, 16) > 0 and node.ask("anvil_getAutomine")  # making a history switches it off
            if not stalled or head != last:
                last, since = head, time.monotonic()
            elif time.monotonic() - since > STALLED_SECONDS:
                node.ask("evm_mine")
        except (OSError, ValueError):
            continue  # the node is busy, or shutting down


def _base_options(observed: Sequence[str]) -> Sequence[str]:
    named = {
        "--publisher": wallets.PUBLISHER,
        "--lister": wallets.OPENER,
        "--creditor": wallets.CREDITOR,
        "--guardian": wallets.GUARDIAN,
        "--attester": wallets.ATTESTATION,
    }
    options = [part for option, one in named.items() for part in (option, one.address)]
    numbers = {
        "--lag": LAG_SECONDS,
        "--memory": MEMORY_SECONDS,
        "--max-age": MAX_AGE_SECONDS,
        "--pot-cap": POT_CAP_USD,
        "--feed-cap": FEED_CAP_USD,
    }
    options += [part for option, number in numbers.items() for part in (option, str(number))]
    for lane in wallets.RELAY_LANES:
        options += ["--relayer", lane.address]
    for key in observed:
        options += ["--observe", key]
    return options


def _first_readings(node: LocalNode, deployment: Deployment) -> None:
    """Post each published feed's first reading, because the Safe can only allow a feed that has a reading."""
    node.ask("evm_mine")  # a value observed at the time of the last block may be too old for the next one
    calls = []
    for source in deployment.published_feeds:
        head = node.ask("eth_getBlockByNumber", "latest", False)
        reading = (first_value(source.key), min(int(time.time()), int(head["timestamp"], 16)))
        calls.append(Contract(source.address, abi("ObservationFeed")).call("post", *reading))
    chain_setup.send_all(node, calls, wallets.PUBLISHER.address)
