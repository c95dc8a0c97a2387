"""The daemon: one leader election and one follower for each configured chain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from core.config.settings import CHAIN_NAMES
from core.db.engine import ConnectionPool, make_pool
from core.db.heartbeat import beat_forever
from core.db.migrate import check_fit
from core.log import get_logger
from core.service.daemon import Daemon, run_daemon
from indexer import metrics
from indexer.service import ChainService

log = get_logger(__name__)

MEASURE_SECONDS = 10.0

_AUDITS = """
SELECT DISTINCT ON (chain_id) name, mismatches, extract(epoch FROM at)::float
FROM chain_audit JOIN chain_cursor USING (chain_id) ORDER BY chain_id, chain_audit.id DESC
"""


@asynccontextmanager
async def setup(daemon: Daemon) -> AsyncIterator[None]:
    """Follow every chain that has an RPC URL; another process may follow the others."""
    settings = daemon.settings
    url = settings.database_url.get_secret_value()
    await check_fit(settings)
    async with make_pool(url, size=settings.database_pool_size, application_name="vpm-indexer") as pool:
        chains = [settings.chain(name) for name in CHAIN_NAMES]
        services = [ChainService(chain, settings, pool) for chain in chains if chain.rpc_urls]
        if not services:
            log.warning("no chain has an RPC URL; nothing to index", action="index.nothing")
        for service in services:
            daemon.health.add_check(f"chain-{service.chain.name}", service.health)
            daemon.spawn_endless(f"chain {service.chain.name}", service.run())
        beating = beat_forever(
            pool,
            "indexer",
            is_leader=lambda: any(service.leadership.is_leader for service in services),
            detail=lambda: {service.chain.name: _summary(service) for service in services},
        )
        daemon.spawn_endless("heartbeat", beating)
        daemon.spawn_endless("audits", _measure_audits(pool))
        yield


async def _measure_audits(pool: ConnectionPool) -> None:
    """Export the results of each chain's last audit, which ran in another process."""
    while True:
        with contextlib.suppress(psycopg.Error, TimeoutError):
            async with pool.connection() as connection:
                for chain, mismatches, at in await connection.fetch_all(_AUDITS):
                    metrics.AUDIT_MISMATCHES.labels(chain).set(mismatches)
                    metrics.AUDITED.labels(chain).set(at)
        await asyncio.sleep(MEASURE_SECONDS)


def _summary(service: ChainService) -> str:
    return service.problem or ("leading" if service.leadership.is_leader else "standing by")


def serve() -> int:
    return run_daemon("indexer", setup, metrics_port=lambda settings: settings.indexer_metrics_port)
