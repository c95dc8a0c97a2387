"""Pages give a demo key only where money is worth nothing."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from api.web.surface import demo_wallet
from core.contracts.deployments import load_deployment
from core.errors import ConfigError
from core.paths import REPOSITORY
from scripts._stack import wallets

KEY = SecretStr(wallets.DEMO.private_key)
LIVE = load_deployment(REPOSITORY / "deployments" / "base.json")
LOCAL = LIVE.model_copy(update={"kind": "local"})


def test_a_demo_key_is_given_on_local_chains() -> None:
    assert demo_wallet(KEY, (LOCAL, LOCAL)) == {"address": wallets.DEMO.address, "key": wallets.DEMO.private_key}
    assert demo_wallet(None, (LIVE, LIVE)) is None


@pytest.mark.parametrize("kinds", [(LIVE, LOCAL), (LOCAL, LIVE), (LIVE, LIVE)])
def test_a_demo_key_next_to_a_live_chain_stops_the_service(kinds: tuple[object, ...]) -> None:
    with pytest.raises(ConfigError, match="VPM_DEMO_WALLET_KEY is sent to every visitor, but Base is not a local"):
        demo_wallet(KEY, kinds)  # type: ignore[arg-type]
