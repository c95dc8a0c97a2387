"""Playing on a local Base: time, markets, observations. Blocking, one request at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eth_utils.crypto import keccak

from api.agent.chain import AgentContracts, abi
from core.chain import Call, Contract
from core.deployments import Deployment
from core.local.anvil import ask
from core.money import USD

VIRTUAL_LIQUIDITY = 1_000 * USD


@dataclass(frozen=True)
class AgentChain:
    url: str
    deployment: Deployment
    contracts: AgentContracts

    @classmethod
    def on(cls, url: str, deployment: Deployment) -> AgentChain:
        contracts = AgentContracts.of(deployment)
        assert contracts is not None
        made = cls(url, deployment, contracts)
        made.ask("evm_mine")  # the saved genesis may be hours old; a block of now makes `now` the present
        return made

    def ask(self, method: str, *params: object) -> Any:
        return ask(self.url, method, *params)

    @property
    def now(self) -> int:
        return int(self.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    def warp_to(self, timestamp: int) -> None:
        self.ask("evm_setNextBlockTimestamp", hex(timestamp))
        self.ask("evm_mine")

    def read(self, call: Call) -> Any:
        return call.function.decode(bytes.fromhex(self.ask("eth_call", call.parameters(), "latest")[2:]))

    def send(self, call: Call, sender: str) -> dict[str, Any]:
        """As an account the node impersonates; the receipt of a success."""
        self.ask("anvil_setBalance", sender, hex(10**20))
        self.ask("anvil_impersonateAccount", sender)
        sent = self.ask("eth_sendTransaction", {**call.parameters(), "from": sender, "gas": hex(6_000_000)})
        for _ in range(200):
            receipt = self.ask("eth_getTransactionReceipt", sent)
            if receipt is not None:
                assert receipt["status"] == "0x1", f"{call} reverted"
                return dict(receipt)
            time.sleep(0.02)
        raise AssertionError(f"{sent} was not mined")

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
