"""What the answers of the stock surface are made of."""

from __future__ import annotations

from dataclasses import dataclass

from api.stock.chain import StockContracts
from api.stock.index import StockIndex
from api.stock.oracle import OracleWatch
from core.chain import ChainClient
from core.contracts.deployments import Deployment


@dataclass(frozen=True, slots=True)
class StockSources:
    """What is asked for answers, of the chain and of what is known of it. `contracts` and `index` are None before
    deployment, `client` and `oracle` without an RPC URL."""

    deployment: Deployment
    contracts: StockContracts | None
    client: ChainClient | None
    index: StockIndex | None
    oracle: OracleWatch | None
