"""What is followed on a chain: contracts by role from the deployment file, and the filters that ask a node for them.

Tokens are a case of their own. Their authorizations are far too many to read on a live chain, so of a token only the
transfers to our contracts are asked for, then the authorizations of those who sent them in the same blocks, and of
those only what shares a transaction is kept.

Cancellations are fetched for all payers. A payer may cancel before any payment of theirs reached us, so no list of our
payers names them, and a list from anywhere but the chain could not be rebuilt from it. They come with the request for
our own contracts' events, so they cost no extra request; on the live token they are rare, since there is no gain in
one, and sending many costs their sender gas while each costs us one row. If a node leaves some out, no harm is done:
without a known cancellation we never ask the payer to sign again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from core.agent.document import feed_keys
from core.contracts.deployments import Deployment
from core.contracts.events import Layout, Role, layouts_of
from core.contracts.events.token import AUTHORIZATION_CANCELED, AUTHORIZATION_USED, TRANSFER
from core.errors import DeploymentError
from core.hexadecimal import bytes_of, hex_of
from indexer.fold.shared import FeedRounds

CONTRACT_ROLES: Mapping[str, Role] = {
    "VestedMarkets": Role.SETTLER,
    "RoundResolver": Role.RESOLVER,
    "MarketLister": Role.LISTER,
    "SettlementWallet": Role.WALLET,
    "FeedResolver": Role.AGENT_RESOLVER,
    "AgentLister": Role.AGENT_LISTER,
    "Pauser": Role.PAUSER,
}
"""Names in the deployment file, and what they are to us."""

PAID_INTO = (Role.SETTLER, Role.WALLET)

Filter = dict[str, Any]


@dataclass(frozen=True)
class Emitter:
    """A followed address, as bytes, and the layouts of its logs by the first topic's hex."""

    address: bytes
    role: Role
    layouts: Mapping[str, Layout]


@dataclass(frozen=True)
class Sources:
    """Everything followed on one chain. `observed`: what the agent feeds report, by the deployment file; `steps`: of
    the pool feeds."""

    name: str
    chain_id: int
    start_block: int
    kind: Literal["arbitrum-orbit", "op-stack", "local"]
    contracts: Mapping[Role, bytes]
    token: bytes | None
    feeds: Mapping[bytes, FeedRounds] = field(default_factory=dict)
    observed: Mapping[bytes, str] = field(default_factory=dict)
    steps: Mapping[bytes, int] = field(default_factory=dict)
    emitters: Mapping[str, Emitter] = field(init=False)
    """By lower-case hex address, as nodes write it."""

    def __post_init__(self) -> None:
        every = [(address, role) for role, address in self.contracts.items()]
        every += [(address, Role.FEED) for address in self.feeds]
        if self.token is not None:
            every.append((self.token, Role.TOKEN))
        emitters = {
            hex_of(address): Emitter(
                address, role, {hex_of(topic): layout for topic, layout in layouts_of(role).items()}
            )
            for address, role in every
        }
        object.__setattr__(self, "emitters", emitters)

    @property
    def any_depth(self) -> bool:
        """A chain that exists for development may be restarted from any earlier state."""
        return self.kind == "local"

    @property
    def l1_blocks(self) -> bool:
        """Return whether contracts see another block.number than the block's own."""
        return self.kind == "arbitrum-orbit"

    @property
    def main_filter(self) -> Filter:
        """Every event of our contracts and feeds, and the token's cancellations; its other events are none of these."""
        ours = [each for each in self.emitters.values() if each.role is not Role.TOKEN]
        topics = {topic for each in ours for topic in each.layouts}
        addresses = {hex_of(each.address) for each in ours}
        if self.token is not None:
            topics.add(hex_of(AUTHORIZATION_CANCELED.topic))
            addresses.add(hex_of(self.token))
        return {"address": sorted(addresses), "topics": [sorted(topics)]}

    @property
    def transfer_filter(self) -> Filter | None:
        """Transfers of the token to our contracts; None where no token is followed."""
        ours = [as_topic(self.contracts[role]) for role in PAID_INTO if role in self.contracts]
        if self.token is None or not ours:
            return None
        return {"address": [hex_of(self.token)], "topics": [hex_of(TRANSFER.topic), None, ours]}

    def authorization_filter(self, senders: list[str]) -> Filter:
        """Filter authorizations used by those whose transfers reached us; `senders` as topics."""
        assert self.token is not None
        return {"address": [hex_of(self.token)], "topics": [hex_of(AUTHORIZATION_USED.topic), senders]}

    def fingerprint(self) -> dict[str, str]:
        """Return the contracts a database is filled from; feeds may be added later, so they are not part of it."""
        contracts = {role.value: hex_of(address) for role, address in self.contracts.items()}
        return contracts | ({"token": hex_of(self.token)} if self.token is not None else {})


def sources_of(deployment: Deployment, name: str, feeds: Mapping[bytes, FeedRounds] | None = None) -> Sources:
    """Return what to follow of a deployed network. `feeds` defaults to every feed listed, taken to emit its own
    rounds."""
    if not deployment.is_deployed:
        raise DeploymentError(f"Nothing is deployed on {deployment.network} yet.")
    contracts = {
        role: bytes_of(deployment.contracts[key].address)
        for key, role in CONTRACT_ROLES.items()
        if key in deployment.contracts
    }
    if not contracts:
        raise DeploymentError(f"Network {deployment.network} lists none of {', '.join(CONTRACT_ROLES)}.")
    if feeds is None:
        feeds = {address: FeedRounds(address) for address in feed_proxies(deployment)}
    return Sources(
        name=name,
        chain_id=deployment.chain_id,
        start_block=deployment.start_block,
        kind=deployment.kind,
        contracts=contracts,
        token=_token(deployment),
        feeds=feeds,
        observed=feed_keys(deployment.agent_feeds),
        steps={bytes_of(feed.address): feed.step_seconds for feed in deployment.pool_feeds},
    )


def feed_proxies(deployment: Deployment) -> list[bytes]:
    """Return the feeds markets may name."""
    addresses = [feed.proxy for feed in deployment.price_feeds] + [feed.address for feed in deployment.agent_feeds]
    return [bytes_of(address) for address in addresses]


def _token(deployment: Deployment) -> bytes | None:
    """Return the stablecoin stakes are made in: the one EIP-3009 token of the network."""
    for symbol in ("USDG", "USDC"):
        if symbol in deployment.tokens:
            return bytes_of(deployment.tokens[symbol].address)
    return None


def as_topic(address: bytes) -> str:
    """Return an address as logs have it among their topics."""
    return hex_of(address.rjust(32, b"\0"))
