"""A local Base chain for tests: markets, readings, results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from api.agent.chain import AgentContracts
from core.agent.bet import idem_hash, market_key
from core.agent.book import MARGIN
from core.agent.document import Metadata, Specification, draft_document
from core.chain import Contract, checksum
from core.contracts.abi import abi
from core.contracts.deployments import Deployment
from core.contracts.statuses import AgentMarketStatus, MarketKind
from core.feeds.grid import grid_time
from core.money import USD
from scripts._stack.wallets import DEV, Wallet
from tests.support.chain_driver import ChainDriver

VIRTUAL_LIQUIDITY = 1_000 * USD
CAP = 100_000_000 * 10**8
HOUR, DAY = 3_600, 86_400


@dataclass(frozen=True)
class AgentChain(ChainDriver[AgentContracts]):
    """Base with the contracts of the agent markets. `ids`: the ids of markets listed here, by their names in the
    test."""

    ids: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    def on(cls, url: str, deployment: Deployment) -> AgentChain:
        contracts = AgentContracts.from_deployment(deployment)
        assert contracts is not None
        made = cls(url, deployment, contracts)
        # The saved genesis may be hours old: a block of now makes `now` the present, and the feeds are read again.
        made.ask("evm_mine")
        for source in deployment.published_feeds:
            made.observe(CAP // 2, source.key)
        for pool_feed in deployment.pool_feeds:
            made.record(pool_feed.key)
        return made

    @property
    def names(self) -> dict[str, str]:
        return {identity: name for name, identity in self.ids.items()}

    def balance(self, owner: str) -> int:
        return int(self.read(self.contracts.token.call("balanceOf", checksum(owner))))

    def give(self, owner: str, units: int, giver: Wallet = DEV[0]) -> None:
        self.send(self.contracts.token.call("transfer", checksum(owner), units), giver.address)

    def stake(self, owner: str, key: str) -> dict[str, Any] | None:
        number = self.read(self.contracts.settlement.call("stakeOf", checksum(owner), idem_hash(key)))
        return dict(self.read(self.contracts.settlement.call("stake", number))) if number else None

    def source(self, key: str | None = None) -> Any:
        """Return a feed's entry in the deployment file; by default of the feed that the test controls."""
        if key is None:
            return self.deployment.published_feeds[0]
        return self.deployment.agent_feed(key)

    @property
    def feed(self) -> Contract:
        return self.feed_of()

    def feed_of(self, key: str | None = None) -> Contract:
        return Contract(self.source(key).address, abi("ObservationFeed"))

    def observe(self, value: int, key: str | None = None) -> None:
        """Post a reading with 8 decimals, observed now."""
        # What was observed in the last block may be too old for the next one, or as old as the last reading.
        self.warp_to(self.now + 1)
        self.send(self.feed_of(key).call("post", value, self.now), self.deployment.operator_wallets["publisher"])

    def record(self, key: str) -> None:
        self.warp_to(self.now + 1)
        feed = Contract(self.source(key).address, abi("PoolFeed"))
        at = grid_time(self.now - 1, self.source(key).step_seconds)
        self.send(feed.call("record", [at]), self.deployment.operator_wallets["lister"])

    def value(self, key: str | None = None) -> int:
        return int(self.read(self.feed_of(key).call("latestRoundData"))[1])

    def list(
        self,
        name: str,
        *,
        kind: int = MarketKind.THRESHOLD,
        feed: str | None = None,
        target: int = CAP,
        bounds: Sequence[int] = (),
        opens_at: int = 0,
        closes_at: int | None = None,
        start_at: int | None = None,
        ends_at: int | None = None,
        weights: Sequence[int] = (),
        virtual: int = VIRTUAL_LIQUIDITY,
        early: bool = False,
        known: bool = True,
        metadata: str | None = None,
    ) -> str:
        """List a market and return its id. By default it is a threshold market of 100M whose bets end in a day.

        feed: a key of the deployment file. virtual: the weight of all outcomes together. early: the market is won as
        soon as its target is reached. known: False lists it under a key that is not its own. metadata: replaces the
        service's metadata, as a hostile lister might. Each market's bets end in another second, so that no two
        specifications are the same.
        """
        now, source = self.now, self.source(feed)
        chosen = MarketKind(kind)
        closes_at = now + DAY + next(self.numbers) if closes_at is None else closes_at
        begins = closes_at + MARGIN + source.memory_seconds
        if start_at is None:
            start_at = begins if chosen is MarketKind.DIRECTION else 0
        if ends_at is None:
            ends_at = start_at + HOUR if chosen is MarketKind.DIRECTION else begins + closes_at - now + HOUR
        outcomes = len(bounds) + 1 if chosen is MarketKind.RANGE else 2
        level = target if chosen is MarketKind.THRESHOLD else 0
        spec = Specification(
            chosen, level, tuple(bounds), early, True, 0, start_at, ends_at, 0, 0, 0,
            feed=bytes.fromhex(source.address[2:]), opens_at=opens_at, closes_at=closes_at,
        )  # fmt: skip
        identity = draft_document(spec, source.key).id if known else f"unknown-{name}"
        fields = (
            int(chosen), source.address, level, list(bounds), early, opens_at, closes_at, start_at, ends_at,
            list(weights or (virtual // outcomes,) * outcomes),
        )  # fmt: skip
        key = market_key(identity)
        call = self.contracts.lister.call("list", key, fields, metadata or Metadata(identity).canonical())
        self.send(call, self.deployment.operator_wallets["lister"])
        self.ids[name] = identity if known else "0x" + key.hex()
        return self.ids[name]

    def key(self, name: str) -> bytes:
        """Return the contract's id of a market, given its name in the test or its id."""
        identity = self.ids.get(name, name)
        return bytes.fromhex(identity[2:]) if identity.startswith("0x") else market_key(identity)

    def terms(self, name: str) -> Any:
        return self.read(self.contracts.resolver.call("terms", self.key(name)))

    def settle(self, name: str, value: int, *, resolve: bool = True) -> None:
        """Post a reading for the market's end, and settle the market as soon as that reading counts, or leave that to
        others."""
        terms = self.terms(name)
        key = next(each.key for each in self.deployment.agent_feeds if each.address.lower() == terms["feed"])
        if self.now < terms["endsAt"]:
            self.warp_to(terms["endsAt"] - 60)  # time goes on while this works
        self.observe(value, key)
        self.warp_to(max(terms["settlesAfter"], self.now) + 1)
        if resolve:
            sender = self.deployment.operator_wallets["lister"]  # anyone may resolve
            self.send(self.contracts.resolver.call("resolve(bytes32)", self.key(name)), sender)

    def resolved(self, name: str) -> bool:
        status = self.read(self.contracts.settlement.call("market", self.key(name)))["status"]
        return int(status) in (AgentMarketStatus.RESOLVED, AgentMarketStatus.VOID)

    def set_bounds(self, **changes: int) -> None:
        assert self.deployment.safe is not None
        bounds = dict(self.read(self.contracts.lister.call("bounds")))
        for name, value in changes.items():
            bounds[{"fee_bps": "feeBps"}[name]] = value
        self.send(self.contracts.lister.call("setBounds", tuple(bounds.values())), self.deployment.safe.address)
