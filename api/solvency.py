"""Balances and liabilities of the contracts that hold users' money."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from api.context import Context
from api.stock.bodies.proof import SolvencyProof
from core.chain import ChainClient, Contract, RpcError, values
from core.config import ChainName
from core.contracts.abi import abi
from core.contracts.deployments import load_deployment
from core.log import get_logger

log = get_logger(__name__)

# Each process makes two calls to each chain this often; the page is cached for a minute.
PAUSE_SECONDS = 15.0
CHAIN_TIMEOUT_SECONDS = 3.0
# Chain, the contract that holds money, and its token.
HOLDERS: Final[tuple[tuple[ChainName, str, str], ...]] = (
    ("stock", "VestedMarkets", "USDG"),
    ("base", "SettlementWallet", "USDC"),
)


@dataclass(frozen=True, slots=True)
class Solvency:
    """A contract's balance and liabilities at the end of a block, in token units."""

    balance: int
    liabilities: int
    block: int


class SolvencyWatch:
    """One contract's solvency, read every few seconds. While the contract's chain does not answer, the last reading
    stays and `missing` is set.

    Each contract has its own watch, so that one silent chain does not delay the numbers of the other.
    """

    def __init__(self, client: ChainClient, chain: ChainName, contract: Contract, token: Contract, symbol: str) -> None:
        self._client = client
        self._contract = contract
        self._token = token
        self._chain = chain
        self._symbol = symbol
        self.latest: Solvency | None = None
        self.missing = True

    async def run(self) -> None:
        while True:
            await self._refresh()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _refresh(self) -> None:
        try:
            async with asyncio.timeout(2 * CHAIN_TIMEOUT_SECONDS):
                self.latest = await self._read()
            self.missing = False
        except (RpcError, TimeoutError) as error:
            if not self.missing:
                log.warning(
                    "failed to read the contract's balance and liabilities",
                    action="proof.no_solvency",
                    chain=self._chain,
                    why=error,
                )
            self.missing = True

    async def _read(self) -> Solvency:
        """Read the balance and the liabilities at the newest block."""
        block = (await self._client.head(timeout_seconds=CHAIN_TIMEOUT_SECONDS)).number
        calls = [self._token.call("balanceOf", self._contract.address), self._contract.call("liabilities")]
        balance, owed = values(await self._client.read_many(calls, block, timeout_seconds=CHAIN_TIMEOUT_SECONDS))
        # SettlementWallet returns open stakes, unpaid money and fees separately; VestedMarkets returns the sum.
        return Solvency(balance, sum(owed) if isinstance(owed, tuple) else owed, block)

    def body(self, name: str) -> SolvencyProof | None:
        if self.latest is None:
            return None
        return SolvencyProof(
            contract=name,
            chain=self._chain,
            token=self._symbol,
            address=self._contract.address,
            balance=str(self.latest.balance),
            liabilities=str(self.latest.liabilities),
            block=str(self.latest.block),
        )


async def solvency_watches(context: Context) -> dict[str, SolvencyWatch]:
    """Return a watch for each contract, by contract name. Chains without contracts or without a node are left out."""
    watches = {}
    for chain, name, symbol in HOLDERS:
        deployment = load_deployment(context.settings.chain(chain).deployment_file)
        client = await context.chains.client(chain)
        if client is None or name not in deployment.contracts:
            continue
        contract = Contract(deployment.contract(name).address, abi(name))
        token = Contract(deployment.token(symbol).address, abi(f"Local{symbol}"))
        watches[name] = SolvencyWatch(client, chain, contract, token, symbol)
    return watches
