"""The chains as requests ask them: one client each, shared by the surfaces."""

from __future__ import annotations

from contextlib import AsyncExitStack

from core.chain import ChainClient, ChainProvider
from core.config import ChainName, Settings
from core.contracts.deployments import load_deployment


class Chains:
    """Clients of the chains by their names in the settings, open as long as `stack` is.

    A request waits for its answer, so nodes are asked once around and for seconds at most.
    """

    def __init__(self, settings: Settings, stack: AsyncExitStack) -> None:
        self._settings = settings
        self._stack = stack
        self._open: dict[ChainName, ChainClient] = {}

    async def client(self, name: ChainName) -> ChainClient | None:
        """None where no node is known."""
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
