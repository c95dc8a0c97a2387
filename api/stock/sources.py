"""The data sources of the stock surface."""

from __future__ import annotations

from dataclasses import dataclass

from api.stock.chain import StockContracts
from api.stock.index import StockIndex
from api.stock.oracle import OracleWatch
from core.chain import ChainClient
from core.contracts.deployments import Deployment


@dataclass(frozen=True, slots=True)
class StockSources:
    """The deployment, contracts, chain client, index and oracle of the stock surface. `contracts` and `index` are None
    before deployment, `client` and `oracle` without an RPC URL."""

    deployment: Deployment
    contracts: StockContracts | None
    client: ChainClient | None
    index: StockIndex | None
    oracle: OracleWatch | None
