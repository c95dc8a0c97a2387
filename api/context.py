"""What every surface is given: settings, databases, chains, rate limits, and a way to run tasks beside the requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from eth_account import Account
from sqlalchemy.ext.asyncio import AsyncEngine

from api.http.limits import ConcurrencyLimiter, RateLimits
from core.chain import ChainClient, ChainProvider
from core.config import ApiSecrets, ChainName, Settings
from core.contracts.deployments import load_deployment
from core.db.engine import ConnectionPool, make_engine, make_pool
from core.outbox import IntentWatch

# A request that waits for longer has lost its caller.
ANSWER_SECONDS = 10.0

# Runs a task for as long as the service lives; its ending is a fault.
Spawn = Callable[[str, Coroutine[Any, Any, None]], object]


class Chains:
    """Clients of the chains by their names in the settings, shared by the surfaces and open as long as `stack` is.

    A request waits for the answer, so each node is asked once, and for seconds at most.
    """

    def __init__(self, settings: Settings, stack: AsyncExitStack) -> None:
        self._settings = settings
        self._stack = stack
        self._open: dict[ChainName, ChainClient] = {}

    async def client(self, name: ChainName) -> ChainClient | None:
        """Return the chain's client, or None where no node is known."""
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
    """What the surfaces share. `engine` reads, from the replica when there is one; `pool` (autocommit) writes, to the
    primary.

    `payments`: places for trades and relayed bets while they are checked.

    What decides about money reads from `primary`: a replica may not know yet what was just written.
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
        """The address whose key signs the agent surface's offers, receipts and callbacks."""
        key = self.secrets.attestation_key
        return None if key is None else str(Account.from_key(key.get_secret_value()).address)

    def writing(self, name: str) -> ConnectionPool:
        """A pool of its own, to open: of what waits for locks that must not hold up what bets for money."""
        return writing_pool(self.settings, name)

    @property
    def read_url(self) -> str:
        return self.settings.read_url.get_secret_value()

    @property
    def write_url(self) -> str:
        return self.settings.database_url.get_secret_value()


def writing_pool(settings: Settings, name: str) -> ConnectionPool:
    """Connections (autocommit) to the primary, to open, that bear this name."""
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
    """Connects lazily: the service starts, and answers what it can, without a database."""
    seconds = settings.database_connect_timeout_seconds
    write_url, read_url = settings.database_url.get_secret_value(), settings.read_url.get_secret_value()

    def reading(url: str) -> AsyncEngine:
        size = settings.database_pool_size
        return make_engine(
            url,
            pool_size=size,
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
            # A crowd without a bound waits for processor and connections until each of its calls gives up.
            payments = ConcurrencyLimiter(settings.payments_in_hand, settings.payments_in_hand // 3)
            chains = Chains(settings, stack)
            yield Context(settings, secrets, engine, primary, pool, watch, chains, limits, payments, spawn)
    finally:
        await engine.dispose()
        await primary.dispose()
