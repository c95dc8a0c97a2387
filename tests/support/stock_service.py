"""The stock surface as real processes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from scripts._stack import wallets
from tests.support.service import Service, followed, polled, serving
from tests.support.stock_chain import StockChain

CRON_SECRET = "a-secret-only-the-scheduler-has"

StockService = Service[StockChain]


def stock_service(
    chain: StockChain, database_url: str, deployments: Path, folder: Path, **env: str
) -> AbstractContextManager[StockService]:
    lanes = ",".join(f"stock:relay+keeper={w.private_key}" for w in wallets.RELAY_LANES[:2])
    given = {
        **(polled if "VPM_STOCK_RPC_URLS" in env else followed)("STOCK", chain.url),
        "CRON_SECRET": CRON_SECRET,
        "VPM_RELAYER_KEYS": f"{lanes},stock:opener={wallets.OPENER.private_key}",
    }
    return serving(StockService, chain, database_url, deployments, folder, {**given, **env})
