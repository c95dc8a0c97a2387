"""Which nodes the pages point wallets at."""

from __future__ import annotations

import pytest

from api.web.surface import chain_for_wallets, local_nodes
from core.config import Settings
from core.contracts.deployments import load_deployment
from core.paths import REPOSITORY

GATEWAY = "http://127.0.0.1:9545/v2/secret-key"


def settings() -> Settings:
    return Settings.model_validate(
        {
            "DATABASE_URL": "postgresql://vpm@127.0.0.1/vpm",
            "VPM_BASE_RPC_URLS": GATEWAY,
            "VPM_STOCK_RPC_URLS": GATEWAY,
        }
    )


@pytest.mark.parametrize("kinds", [("arbitrum-orbit", "op-stack"), ("local", "op-stack"), ("arbitrum-orbit", "local")])
def test_the_url_of_a_live_chains_gateway_is_never_on_a_page(kinds: tuple[str, str]) -> None:
    stock, base = (
        load_deployment(REPOSITORY / "deployments" / f"{name}.json").model_copy(update={"kind": kind})
        for name, kind in zip(("stock", "base"), kinds, strict=True)
    )
    nodes = local_nodes(settings(), (stock, base))
    assert nodes == {}
    assert chain_for_wallets(nodes.get("base"), base, "SettlementWallet", "USDC")["rpc"] == []


def test_wallets_reach_local_chains_by_this_machines_nodes() -> None:
    stock, base = (
        load_deployment(REPOSITORY / "deployments" / f"{name}.json").model_copy(update={"kind": "local"})
        for name in ("stock", "base")
    )
    assert local_nodes(settings(), (stock, base)) == {"stock": GATEWAY, "base": GATEWAY}


def test_a_chain_without_a_node_has_none_for_wallets() -> None:
    stock, base = (
        load_deployment(REPOSITORY / "deployments" / f"{name}.json").model_copy(update={"kind": "local"})
        for name in ("stock", "base")
    )
    bare = Settings.model_validate({"DATABASE_URL": "postgresql://vpm@127.0.0.1/vpm", "VPM_BASE_RPC_URLS": GATEWAY})
    assert local_nodes(bare, (stock, base)) == {"base": GATEWAY}
