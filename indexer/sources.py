"""A chain's sources: the deployment file's contracts by role, and the filters that select their logs.

A live token logs far too many authorizations to read them all. So the indexer fetches only the token's transfers to our
contracts, and then the authorizations of the senders in the same blocks. It keeps an authorization only if the same
transaction has such a transfer.

Cancellations are fetched for all payers, because a payer may cancel before the first payment to us. They are rare on
the live token, and are fetched in the same request as our contracts' events. If a node leaves out a cancellation, the
only effect is that the payer is not asked to sign again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from core.agent.document import feed_keys
from core.contracts.deployments import Deployment
from core.contracts.events import Layout, Role, layouts_of
from core.contracts.events.shared import AUTHORIZATION_CANCELED, AUTHORIZATION_USED, TRANSFER
from core.errors import DeploymentError
from core.hexadecimal import bytes_of, hex_of

CONTRACT_ROLES: Mapping[str, Role] = {
    "VestedMarkets": Role.SETTLER,
    "RoundResolver": Role.RESOLVER,
    "MarketLister": Role.LISTER,
    "SettlementWallet": Role.WALLET,
    "FeedResolver": Role.AGENT_RESOLVER,
    "AgentLister": Role.AGENT_LISTER,
    "Pauser": Role.PAUSER,
}
"""Contract names in the deployment file, and their roles."""

PAYMENT_RECIPIENTS = (Role.SETTLER, Role.WALLET)

Filter = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FeedRounds:
    """The proxy for which an emitter publishes rounds, and the rounds' phase if their ids do not include one."""

    proxy: bytes
    phase: int | None = None

    def round_id(self, stated: int) -> int:
        return stated if self.phase is None else self.phase << 64 | stated


@dataclass(frozen=True)
class Emitter:
    """A followed address, with the layouts of its logs by first topic (hex)."""

    address: bytes
    role: Role
    layouts: Mapping[str, Layout]


@dataclass(frozen=True)
class Sources:
    """The contracts and feeds followed on one chain. `observed` are the agent feeds' keys in the deployment file;
    `steps` are the pool feeds' step lengths in seconds."""

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
    def allows_deep_reorgs(self) -> bool:
        """Return whether the chain may be rewound to any earlier state, like a development chain."""
        return self.kind == "local"

    @property
    def uses_l1_blocks(self) -> bool:
        """Return whether contracts see Ethereum's block number as block.number."""
        return self.kind == "arbitrum-orbit"

    @property
    def main_filter(self) -> Filter:
        """Return the filter for all events of our contracts and feeds, and for the token's cancellations."""
        ours = [each for each in self.emitters.values() if each.role is not Role.TOKEN]
        topics = {topic for each in ours for topic in each.layouts}
        addresses = {hex_of(each.address) for each in ours}
        if self.token is not None:
            topics.add(hex_of(AUTHORIZATION_CANCELED.topic))
            addresses.add(hex_of(self.token))
        return {"address": sorted(addresses), "topics": [sorted(topics)]}

    @property
    def transfer_filter(self) -> Filter | None:
        """Return the filter for the token's transfers to our contracts, or None if no token is followed."""
        ours = [as_topic(self.contracts[role]) for role in PAYMENT_RECIPIENTS if role in self.contracts]
        if self.token is None or not ours:
            return None
        return {"address": [hex_of(self.token)], "topics": [hex_of(TRANSFER.topic), None, ours]}

    def authorization_filter(self, senders: list[str]) -> Filter:
        """Return the filter for authorizations that were used by `senders`. The senders are addresses in the form of
        topics."""
        assert self.token is not None
        return {"address": [hex_of(self.token)], "topics": [hex_of(AUTHORIZATION_USED.topic), senders]}

    def fingerprint(self) -> dict[str, str]:
        """Return the contracts that a database is filled from. Feeds are left out, because they may be added later."""
        contracts = {role.value: hex_of(address) for role, address in self.contracts.items()}
        return contracts | ({"token": hex_of(self.token)} if self.token is not None else {})


def sources_of(deployment: Deployment, name: str, feeds: Mapping[bytes, FeedRounds] | None = None) -> Sources:
    """Return the sources of a deployed network. Without `feeds`, every listed feed counts as its own emitter."""
    if not deployment.is_deployed:
        raise DeploymentError(f"Nothing is deployed on {deployment.network} yet.")
    contracts = {
        role: bytes_of(deployment.contracts[key].address)
        for key, role in CONTRACT_ROLES.items()
        if key in deployment.contracts
    }
    if not contracts:
        raise DeploymentError(f"The {deployment.network} deployment file lists none of {', '.join(CONTRACT_ROLES)}.")
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
    addresses = [feed.proxy for feed in deployment.price_feeds] + [feed.address for feed in deployment.agent_feeds]
    return [bytes_of(address) for address in addresses]


def _token(deployment: Deployment) -> bytes | None:
    """Return the stakes' stablecoin, the network's only EIP-3009 token."""
    for symbol in ("USDG", "USDC"):
        if symbol in deployment.tokens:
            return bytes_of(deployment.tokens[symbol].address)
    return None


def as_topic(address: bytes) -> str:
    return hex_of(address.rjust(32, b"\0"))
