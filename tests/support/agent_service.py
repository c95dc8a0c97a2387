"""The agent surface as real processes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from scripts._stack import wallets
from tests.support.agent_chain import AgentChain
from tests.support.service import Service, followed, polled, serving


class AgentService(Service[AgentChain]):
    @property
    def api(self) -> str:
        return f"{self.url}/api/agent/v1"


def agent_service(
    chain: AgentChain, database_url: str, deployments: Path, folder: Path, **env: str
) -> AbstractContextManager[AgentService]:
    given = {
        **(polled if "VPM_BASE_RPC_URLS" in env else followed)("BASE", chain.url),
        "VPM_RELAYER_KEYS": ",".join(
            [
                *(f"base:relay+keeper={each.private_key}" for each in wallets.RELAY_LANES[:2]),
                f"base:credit={wallets.CREDITOR.private_key}",
            ]
        ),
        "VPM_ATTESTATION_KEY": wallets.ATTESTATION.private_key,
    }
    return serving(AgentService, chain, database_url, deployments, folder, {**given, **env})
