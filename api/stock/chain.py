"""The stock chain's contracts as the API calls them. Addresses are from the deployment file, ABIs from the build."""

from __future__ import annotations

from dataclasses import dataclass

from core.chain import Call, Contract
from core.contracts.abi import abi
from core.contracts.deployments import Deployment

STOCK_TOKEN_SYMBOL = "USDG"  # noqa: S105 - a currency


@dataclass(frozen=True, slots=True)
class StockContracts:
    """The deployed contracts, with the errors that may bubble up through the settler."""

    settler: Contract
    resolver: Contract
    lister: Contract
    token: Contract

    @classmethod
    def of(cls, deployment: Deployment) -> StockContracts | None:
        """Build the contracts of a deployment. Return None before the contracts are deployed."""
        if not deployment.is_deployed:
            return None
        token = Contract(deployment.token(STOCK_TOKEN_SYMBOL).address, abi("LocalUSDG"))
        return cls(
            settler=Contract(deployment.contract("VestedMarkets").address, abi("VestedMarkets"), token.abi),
            resolver=Contract(deployment.contract("RoundResolver").address, abi("RoundResolver")),
            lister=Contract(deployment.contract("MarketLister").address, abi("MarketLister")),
            token=token,
        )


def stock_call(stock_token: str, name: str) -> Call:
    return Contract(stock_token, abi("LocalStockToken")).call(name)


def feed_call(feed: str, name: str, *arguments: int) -> Call:
    return Contract(feed, abi("LocalFeed")).call(name, *arguments)
