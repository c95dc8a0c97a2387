"""The dependencies of every surface: settings, databases, chains, rate limits, and a way to run background tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from eth_account import Account
from sqlalchemy.ext.asyncio import AsyncEngine

from api.limits import ConcurrencyLimiter, RateLimits
from core.chain import ChainClient, ChainProvider
from core.config import ApiSecrets, ChainName, Settings
from core.contracts.deployments import load_deployment
from core.db.engine import ConnectionPool, make_engine, make_pool
from core.outbox import IntentWatch

# By then the caller has given up.
ANSWER_SECONDS = 10.0

# Runs a task for the lifetime of the service; it is a fault if the task ends.
Spawn = Callable[[str, Coroutine[Any, Any, None]], object]


class Chains:
    """The chain clients that the surfaces share, by name. `stack` closes them.

    Requests wait for these clients, so each node is asked only once, with a timeout of a few seconds.
    """

    def __init__(self, settings: Settings, stack: AsyncExitStack) -> None:
        self._settings = settings
        self._stack = stack
        self._open: dict[ChainName, ChainClient] = {}

    async def client(self, name: ChainName) -> ChainClient | None:
        chain = self._settings.chain(name)
        if not chain.rpc_urls:
            return None
        if name not in self._open:
            rpc = ChainProvider(
                chain.rpc_urls,
                chain_id=load_deployment(chain.deployment_file).chain_id,
                timeout_seconds=self._settings.rpc_request_path_timeout_seconds,
                rounds=1,
            )
            self._open[name] = ChainClient(await self._stack.enter_async_context(rpc))
        return self._open[name]


@dataclass(frozen=True, slots=True)
class Context:
    """The dependencies that all surfaces share.

    `engine` reads from the replica if there is one. `pool` writes to the primary, in autocommit mode. Decisions about
    money read from `primary`, because a replica may lag. `payments` limits how many trades and relayed bets are checked
    at a time.
    """

    settings: Settings
    secrets: ApiSecrets
    engine: AsyncEngine
    primary: AsyncEngine
    pool: ConnectionPool
    watch: IntentWatch
    chains: Chains
    limits: RateLimits
    payments: ConcurrencyLimiter
    spawn: Spawn

    @property
    def has_replica(self) -> bool:
        return self.engine is not self.primary

    @property
    def attester(self) -> str | None:
        """Return the address that signs the agent surface's offers, receipts and callbacks, or None without a key."""
        key = self.secrets.attestation_key
        return None if key is None else str(Account.from_key(key.get_secret_value()).address)

    @property
    def read_url(self) -> str:
        return self.settings.read_url.get_secret_value()

    @property
    def write_url(self) -> str:
        return self.settings.database_url.get_secret_value()


def writing_pool(settings: Settings, name: str) -> ConnectionPool:
    """Return a pool, not open yet, of autocommit connections to the primary. `name`: their application name."""
    return make_pool(
        settings.database_url.get_secret_value(),
        size=settings.database_pool_size,
        autocommit=True,
        connect_timeout_seconds=settings.database_connect_timeout_seconds,
        answer_seconds=ANSWER_SECONDS,
        application_name=name,
    )


@asynccontextmanager
async def open_context(settings: Settings, secrets: ApiSecrets, spawn: Spawn) -> AsyncIterator[Context]:
    """Yield the shared dependencies. The service also starts without a database and serves what it can."""
    seconds = settings.database_connect_timeout_seconds
    write_url, read_url = settings.database_url.get_secret_value(), settings.read_url.get_secret_value()

    def reading(url: str) -> AsyncEngine:
        return make_engine(
            url,
            pool_size=settings.database_pool_size,
            connect_timeout_seconds=seconds,
            answer_seconds=ANSWER_SECONDS,
            application_name="vpm-api",
        )

    engine = reading(read_url)
    primary = engine if read_url == write_url else reading(write_url)
    pool = writing_pool(settings, "vpm-api-write")
    try:
        async with (
            pool,
            IntentWatch(write_url, pool) as watch,
            AsyncExitStack() as stack,
            aclosing(RateLimits(settings.limits_storage_url.get_secret_value())) as limits,
        ):
            # Without a limit a crowd would share processor and connections until every call times out.
            payments = ConcurrencyLimiter(settings.payments_in_hand, settings.payments_in_hand // 3)
            chains = Chains(settings, stack)
            yield Context(settings, secrets, engine, primary, pool, watch, chains, limits, payments, spawn)
    finally:
        await engine.dispose()
        await primary.dispose()
