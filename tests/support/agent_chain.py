"""Playing on a local Base: markets, observations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from eth_utils.crypto import keccak

from api.agent.chain import AgentContracts, abi
from core.chain import Contract
from core.deployments import Deployment
from core.money import USD
from tests.support.played_chain import PlayedChain

VIRTUAL_LIQUIDITY = 1_000 * USD


class AgentChain(PlayedChain[AgentContracts]):
    @classmethod
    def on(cls, url: str, deployment: Deployment) -> AgentChain:
        contracts = AgentContracts.of(deployment)
        assert contracts is not None
        made = cls(url, deployment, contracts)
        made.ask("evm_mine")  # the saved genesis may be hours old; a block of now makes `now` the present
        return made

    @property
    def feed(self) -> Contract:
        """The observation feed of a market cap."""
        source = next(each for each in self.deployment.observation_feeds if each.key.endswith("/market_cap"))
        return Contract(source.address, abi("ObservationFeed"))

    def observe(self, value: int) -> None:
        """Posts a value with 8 decimals, observed now."""
        self.send(self.feed.call("post", value, self.now), self.deployment.operator_wallets["publisher"])

    def list(self, name: str, *, kind: int = 0, metadata: Mapping[str, Any] | None = None, **spec: Any) -> str:
        """Lists a market, by default a threshold one of 100M that closes in a day; returns its id."""
        now = self.now
        words = {"id": name, "slug": name, "question": f"Question of {name}?", "tokenSymbol": "BNKR"}
        bounds = spec.get("bounds", [])
        fields = (
            kind,
            spec.get("feed", self.feed.address),
            spec.get("target", 100_000_000 * 10**8 if kind == 0 else 0),
            bounds,
            spec.get("early", False),
            now,
            spec.get("closes_at", now + 86_400),
            spec.get("start_at", now + 3600 if kind == 2 else 0),
            3600,
            86_400,
            spec.get("fee_bps", 200),
            len(bounds) + 1 if kind == 1 else 2,
            spec.get("virtual", VIRTUAL_LIQUIDITY),
        )
        key = keccak(text=name)
        text = json.dumps({**words, **(metadata or {})})
        self.send(self.contracts.settlement.call("list", key, fields, text), self.deployment.operator_wallets["lister"])
        return name
