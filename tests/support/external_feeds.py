"""Feeds of other publishers, like Chainlink's, on a local Base; one of them goes silent."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from eth_utils.crypto import keccak

from core.agent.bet import market_key
from core.agent.book import MARGIN
from core.agent.document import Metadata, Specification, draft_document
from core.chain import Contract, checksum
from core.contracts.abi import abi
from core.contracts.deployments import write_deployment
from core.contracts.feeds import PublishedFeed
from core.contracts.statuses import MarketKind
from core.money import USD
from scripts._deploy.build import compiled_code
from scripts._stack import wallets
from tests.support.agent_chain import CAP, HOUR, AgentChain

KEY = "DEGEN/market_cap"
SILENT_KEY = "DEGEN/daily_volume"
"""It has one reading; what is decided an hour later or more is void."""
_SOURCE = PublishedFeed(
    kind="published",
    key=KEY,
    address=checksum("0x" + keccak(text="a feed without a publisher")[12:].hex()),
    max_lag_seconds=1,
    memory_seconds=10,
    max_age_seconds=24 * HOUR,
    pot_cap_units=100_000 * USD,
    feed_cap_units=6_400_000 * USD,
)

_SILENT = PublishedFeed.model_validate(
    _SOURCE.model_dump()
    | {
        "key": SILENT_KEY,
        "address": checksum("0x" + keccak(text="a feed that falls silent")[12:].hex()),
        "max_age_seconds": HOUR,
    }
)


def with_unposted_feed(chain: AgentChain, deployments: Path, folder: Path) -> tuple[AgentChain, Path]:
    """Return the chain that knows the feeds, which the Safe has allowed, and a folder of deployment files that name
    them. A test that lists on such a feed starts its daemons with that folder."""
    sources = (*chain.deployment.agent_feeds, _SOURCE, _SILENT)
    deployment = chain.deployment.model_copy(update={"feeds": sources})
    made = replace(chain, deployment=deployment)
    assert deployment.safe is not None
    for each in (_SOURCE, _SILENT):
        made.ask("anvil_setCode", each.address, compiled_code("LocalFeed"))
        push(made, CAP // 2, each)
        given = (each.address, True, each.memory_seconds, each.max_age_seconds, each.pot_cap_units, each.feed_cap_units)
        made.send(made.contracts.lister.call("setFeed", *given), deployment.safe.address)
    copied = folder / "deployments"
    shutil.copytree(deployments, copied)
    write_deployment(deployment, copied / f"{deployment.network}.json")
    return made, copied


def push(chain: AgentChain, value: int, source: PublishedFeed = _SOURCE) -> None:
    chain.ask("evm_mine")
    feed = Contract(source.address, abi("LocalFeed"))
    chain.send(feed.call("push", value, chain.now), wallets.DEPLOYER.address)


def list_unposted(chain: AgentChain, name: str, *, stakes_seconds: int = HOUR, target: int = CAP) -> str:
    closes_at = chain.now + stakes_seconds
    ends_at = closes_at + MARGIN + _SOURCE.memory_seconds + stakes_seconds
    feed = bytes.fromhex(_SOURCE.address[2:])
    times = {"opens_at": 0, "closes_at": closes_at, "start_at": 0, "ends_at": ends_at}
    derived = {"early_from": 0, "settles_after": 0, "voids_after": 0}
    spec = Specification(MarketKind.THRESHOLD, target, (), False, False, 0, feed=feed, **times, **derived)
    identity = draft_document(spec, KEY).id
    weights = (10 * USD, 10 * USD)
    fields = (int(MarketKind.THRESHOLD), _SOURCE.address, target, (), False, 0, closes_at, 0, ends_at, weights)
    listing = chain.contracts.lister.call("list", market_key(identity), fields, Metadata(identity).canonical())
    chain.send(listing, chain.deployment.operator_wallets["lister"])
    chain.ids[name] = identity
    return identity
