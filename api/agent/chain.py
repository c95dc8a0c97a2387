"""Reads from the Base chain for trades: the contracts, the token, and the facts about a payment in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from cachetools import TTLCache

from core.chain import ChainClient, Contract, RpcError, checksum, values
from core.contracts.abi import abi
from core.contracts.deployments import Deployment, Token
from core.log import get_logger

log = get_logger(__name__)

TOKEN_SYMBOL = "USDC"  # noqa: S105 - a currency
RESPONSE_SECONDS = 3.0
BALANCE_CACHE_SECONDS = 3.0
MAX_CACHED = 10_000


@dataclass(frozen=True, slots=True)
class AgentContracts:
    """The contracts: `settlement` holds the money, `resolver` decides outcomes, `lister` opens markets."""

    chain_id: int
    settlement: Contract
    resolver: Contract
    lister: Contract
    token: Contract
    token_facts: Token

    @property
    def pay_to(self) -> str:
        return self.settlement.address

    @property
    def network(self) -> str:
        """Return the chain's CAIP-2 name, which x402 uses from version 2 on."""
        return f"eip155:{self.chain_id}"

    @classmethod
    def from_deployment(cls, deployment: Deployment) -> AgentContracts | None:
        if not deployment.is_deployed or "SettlementWallet" not in deployment.contracts:
            return None
        facts = deployment.token(TOKEN_SYMBOL)
        token = Contract(facts.address, abi("LocalUSDC"))
        return cls(
            deployment.chain_id,
            Contract(deployment.contract("SettlementWallet").address, abi("SettlementWallet"), token.abi),
            Contract(deployment.contract("FeedResolver").address, abi("FeedResolver")),
            Contract(deployment.contract("AgentLister").address, abi("AgentLister")),
            token,
            facts,
        )


@dataclass(frozen=True, slots=True)
class PaymentFacts:
    """A payment's state at one block. `used`: nonces that the token reports as used or cancelled. `booked`: nonces that
    the settlement wallet has booked."""

    block: int
    timestamp: int
    balance: int
    settled_stake: int
    wallet_has_code: bool
    used: frozenset[bytes]
    booked: frozenset[bytes]

    def was_used_elsewhere(self, nonce: bytes) -> bool:
        """Return whether an authorization was used but not booked: it was cancelled, or collected without the
        settlement wallet."""
        return nonce in self.used and nonce not in self.booked


async def read_facts(
    client: ChainClient,
    contracts: AgentContracts,
    wallet: str,
    idem_hash: bytes,
    nonces: Sequence[bytes],
    timeout_seconds: float,
    guess: str | None = None,
) -> PaymentFacts:
    """Read the facts about a payment. Raise RpcError if no node responds. `guess`: the newest block's probable hash."""
    owner = checksum(wallet)
    calls = [
        contracts.token.call("balanceOf", owner),
        contracts.settlement.call("stakeOf", owner, idem_hash),
        *(contracts.token.call("authorizationState", owner, nonce) for nonce in nonces),
        *(contracts.settlement.call("booked", owner, nonce) for nonce in nonces),
    ]
    head, code, answers = await client.read_newest(owner, calls, guess=guess, timeout_seconds=timeout_seconds)
    balance, stake, *flags = values(answers)
    used, booked = flags[: len(nonces)], flags[len(nonces) :]
    return PaymentFacts(
        block=head.number,
        timestamp=head.timestamp,
        balance=balance,
        settled_stake=stake,
        wallet_has_code=bool(code),
        used=frozenset(nonce for nonce, is_so in zip(nonces, used, strict=True) if is_so),
        booked=frozenset(nonce for nonce, is_so in zip(nonces, booked, strict=True) if is_so),
    )


class Balances:
    """Token balances from the chain, cached for a few seconds."""

    def __init__(self, client: ChainClient | None, contracts: AgentContracts | None, timeout_seconds: float) -> None:
        self._client = client
        self._contracts = contracts
        self._timeout_seconds = timeout_seconds
        self._balances: TTLCache[str, int] = TTLCache(MAX_CACHED, BALANCE_CACHE_SECONDS)

    async def get(self, wallet: str) -> int | None:
        if self._client is None or self._contracts is None:
            return None
        if (cached := self._balances.get(wallet)) is not None:
            return cached
        call = self._contracts.token.call("balanceOf", checksum(wallet))
        try:
            balance = int(await self._client.read(call, timeout_seconds=self._timeout_seconds))
        except RpcError as error:
            log.warning("failed to read a balance", action="agent.no_chain", why=error)
            return None
        self._balances[wallet] = balance
        return balance


async def responds(client: ChainClient | None) -> bool:
    if client is None:
        return False
    try:
        async with asyncio.timeout(RESPONSE_SECONDS):
            await client.head(timeout_seconds=RESPONSE_SECONDS)
    except (RpcError, TimeoutError):
        return False
    return True
