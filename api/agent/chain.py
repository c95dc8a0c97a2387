"""Base as the trade path asks it: the settlement contract, the token, and one batch of facts about a payment."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import core
from api.agent.x402 import Payment
from core.chain import Abi, Call, ChainClient, Contract, RpcError, RpcErrorKind, checksum
from core.chain.wire import data_bytes, quantity
from core.deployments import Deployment, Token
from core.mirror.intent import ZERO_ADDRESS, Intent

TOKEN_SYMBOL = "USDC"  # noqa: S105 - a currency
BALANCE_CACHE_SECONDS = 3.0
MOST_CACHED = 10_000
_MAGIC_1271 = bytes.fromhex("1626ba7e")
_ERC1271 = Abi(
    [
        {
            "type": "function",
            "name": "isValidSignature",
            "stateMutability": "view",
            "inputs": [{"name": "hash", "type": "bytes32"}, {"name": "signature", "type": "bytes"}],
            "outputs": [{"name": "magic", "type": "bytes4"}],
        }
    ]
)


@cache
def abi(name: str) -> Abi:
    """One of core/abi/, parsed once."""
    return Abi(json.loads((Path(core.__file__).parent / "abi" / f"{name}.json").read_text()))


@dataclass(frozen=True, slots=True)
class AgentContracts:
    chain_id: int
    settlement: Contract
    token: Contract
    token_facts: Token

    @classmethod
    def of(cls, deployment: Deployment) -> AgentContracts | None:
        """None before deployment."""
        if not deployment.is_deployed or "SettlementWallet" not in deployment.contracts:
            return None
        facts = deployment.token(TOKEN_SYMBOL)
        token = Contract(facts.address, abi("LocalUSDC"))
        address = deployment.contract("SettlementWallet").address
        return cls(deployment.chain_id, Contract(address, abi("SettlementWallet"), token.abi), token, facts)

    def call(self, name: str, intent: Intent, payment: Payment) -> Call:
        """`settle` or `credit` of a payment."""
        return self.settlement.call(
            name,
            (
                intent.market_id,
                intent.outcome,
                intent.amount,
                intent.min_shares,
                checksum(intent.wallet),
                intent.idem_hash,
                checksum(intent.builder) if intent.builder != ZERO_ADDRESS else ZERO_ADDRESS,
                intent.ref,
            ),
            (payment.valid_after, payment.valid_before, payment.nonce, payment.signature),
        )


@dataclass(frozen=True, slots=True)
class PaymentFacts:
    """All read in one batch at the newest block. `used` and `booked` are False without a payment."""

    block: int
    timestamp: int
    balance: int
    stakes_paused: bool
    settled_stake: int
    wallet_has_code: bool
    used: bool
    booked: bool


async def read_facts(
    client: ChainClient,
    contracts: AgentContracts,
    wallet: str,
    idem_hash: bytes,
    nonce: bytes | None,
    timeout_seconds: float,
) -> PaymentFacts:
    """RpcError when the chain cannot be asked."""
    owner = checksum(wallet)
    calls = {
        "balance": contracts.token.call("balanceOf", owner),
        "paused": contracts.settlement.call("stakesPaused"),
        "stake": contracts.settlement.call("stakeOf", owner, idem_hash),
    }
    if nonce is not None:
        calls["used"] = contracts.token.call("authorizationState", owner, nonce)
        calls["booked"] = contracts.settlement.call("booked", owner, nonce)
    requests: list[tuple[str, list[Any]]] = [
        ("eth_getBlockByNumber", ["latest", False]),
        ("eth_getCode", [owner, "latest"]),
        *(("eth_call", [call.parameters(), "latest"]) for call in calls.values()),
    ]
    head, code, *answers = cast("list[Any]", await client.rpc.batch(requests, object, timeout_seconds=timeout_seconds))
    values = {name: _decoded(call, answer) for (name, call), answer in zip(calls.items(), answers, strict=True)}
    block = _shaped(head, dict)
    return PaymentFacts(
        block=quantity(block["number"]),
        timestamp=quantity(block["timestamp"]),
        balance=values["balance"],
        stakes_paused=values["paused"],
        settled_stake=values["stake"],
        wallet_has_code=len(_shaped(code, str)) > 2,
        used=values.get("used", False),
        booked=values.get("booked", False),
    )


async def accepts_signature(
    client: ChainClient, wallet: str, digest: bytes, signature: bytes, timeout_seconds: float
) -> bool:
    """Whether the contract at `wallet` takes the signature (ERC-1271). RpcError when the chain cannot be asked."""
    call = Contract(checksum(wallet), _ERC1271).call("isValidSignature", digest, signature)
    try:
        raw = await client.simulate(call, timeout_seconds=timeout_seconds)
    except RpcError as error:
        if error.retriable:
            raise
        return False
    return raw[:4] == _MAGIC_1271 and len(raw) == 32


class Balances:
    """Token balances read from the chain, kept for a few seconds."""

    def __init__(self, client: ChainClient, contracts: AgentContracts, timeout_seconds: float) -> None:
        self._client = client
        self._contracts = contracts
        self._timeout_seconds = timeout_seconds
        self._held: dict[str, tuple[float, int]] = {}

    async def of(self, wallet: str) -> int:
        """Token units. RpcError when the chain cannot be asked."""
        now = time.monotonic()
        held = self._held.get(wallet)
        if held is not None and now - held[0] < BALANCE_CACHE_SECONDS:
            return held[1]
        call = self._contracts.token.call("balanceOf", checksum(wallet))
        balance = int(await self._client.read(call, timeout_seconds=self._timeout_seconds))
        if len(self._held) >= MOST_CACHED:
            self._held.clear()
        self._held[wallet] = (now, balance)
        return balance


def _decoded(call: Call, answer: Any) -> Any:
    return call.function.decode(data_bytes(_shaped(answer, str)))


def _shaped(answer: Any, kind: type) -> Any:
    """An answer of a batch. RpcError when the node refused the question or answered something else, null included."""
    if isinstance(answer, RpcError):
        raise answer
    if not isinstance(answer, kind):
        raise RpcError(RpcErrorKind.BAD_ANSWER, "The node's answer is not of the promised shape.")
    return answer
