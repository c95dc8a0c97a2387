"""Reads the contracts for the judge, directly from the chain, at any block."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from eth_utils.crypto import keccak

from api.agent.chain import AgentContracts
from core.agent.bet import idem_hash, market_key
from core.chain import Call, Contract, checksum
from core.contracts.abi import abi
from core.contracts.deployments import Deployment
from core.contracts.statuses import AgentMarketStatus
from core.money import USD
from scripts._stack import wallets
from tests.simulator.chain import SimulatedChain

_UNKNOWN_MARKET = "0x" + keccak(b"UnknownMarket(bytes32)")[:4].hex()
LOOKS_BACK_SECONDS = 40.0  # so long after a fork the service may still report the blocks that it undid


class ChainTruth:
    """The chain's state, read without the simulated nodes and the tables."""

    def __init__(self, chain: SimulatedChain, deployment: Deployment, token: Contract) -> None:
        self.chain = chain
        self.deployment = deployment
        self.token = token

    def read(self, call: Call, block: int | str = "latest") -> Any:
        at = hex(block) if isinstance(block, int) else block
        return call.function.decode(bytes.fromhex(self.chain.ask("eth_call", call.parameters(), at)[2:]))

    def balance(self, owner: str, block: int | str = "latest") -> int:
        return int(self.read(self.token.call("balanceOf", owner), block))

    def mint(self, owners: list[str], amount: int) -> None:
        """Mint tokens in one block before the world begins."""
        sender = wallets.DEPLOYER.address
        self.chain.ask("anvil_impersonateAccount", sender)
        for each in owners:
            call = self.token.call("mint", each, amount)
            given = {"from": sender, "to": call.to, "data": "0x" + call.data.hex(), "gas": hex(200_000)}
            self.chain.ask("eth_sendTransaction", given)


class Truth(ChainTruth):
    def __init__(self, chain: SimulatedChain, deployment: Deployment) -> None:
        found = AgentContracts.from_deployment(deployment)
        assert found is not None
        super().__init__(chain, deployment, Contract(deployment.token("USDC").address, abi("LocalUSDC")))
        self.contracts = found
        self.wallet: Contract = found.settlement

    def market(self, key: bytes, block: int | str = "latest") -> Any:
        return self.read(self.wallet.call("market", key), block)

    def market_if_listed(self, key: bytes) -> Any:
        try:
            return self.market(key)
        except ValueError as error:
            if _UNKNOWN_MARKET not in str(error):
                raise
            return None

    def answer(self, body: Any, block: int) -> str | None:
        """Judge what a response says about a market at a block; see `Seen.true`."""
        if block > self.chain.head or not self.chain.stood_for(block, LOOKS_BACK_SECONDS):
            return None
        held = self.market(market_key(body["id"]), block)
        said = (round(Decimal(str(body["volumeUsd"])) * USD), body["totalBets"], body["status"] == "open")
        true = (held["staked"], held["stakes"], held["status"] == AgentMarketStatus.OPEN)
        if said[:2] != true[:2]:
            return f"{body['id']} at block {block}: volume and bets {said[:2]}, on the chain {true[:2]}"
        return ""

    def receipt(self, owner: str, idem_key: str, answer: Any) -> str | None:
        """Judge a receipt by the stake's present state; see `Seen.true`."""
        if self.chain.forked_within(LOOKS_BACK_SECONDS):
            return None
        identity = self.stake_of(owner, idem_key)
        if not identity:
            return "there is a receipt and no stake"
        said, true = answer["receipt"]["position"]["shares"], self.stake(identity)["shares"]
        if abs(Decimal(str(said)) * USD - true) > 1:
            return f"the receipt has {said} shares, the chain {true}"
        return ""

    def stake_of(self, owner: str, idem_key: str) -> int:
        return int(self.read(self.wallet.call("stakeOf", checksum(owner), idem_hash(idem_key))))

    def stake(self, identity: int) -> Any:
        return self.read(self.wallet.call("stake", identity))
