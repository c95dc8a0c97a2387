"""Deployment files: the real ones, what is refused, and that a deployed one is never lost."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from core.contracts.deployments import ContractInfo, Deployment, json_schema, load_deployment, write_deployment
from core.errors import EXIT_CONFIG, DeploymentError
from core.money import USD
from core.paths import REPOSITORY
from scripts._deploy.base import Holders
from scripts._deploy.sending import Transactions, create_address

FOLDER = REPOSITORY / "deployments"
ADDRESS = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
OTHER = "0x5fc5360D0400a0Fd4f2af552ADD042D716F1d168"
FEED = {
    "kind": "published",
    "key": "BNKR/market_cap",
    "address": ADDRESS,
    "maxLagSeconds": 600,
    "memorySeconds": 600,
    "maxAgeSeconds": 3_600,
    "potCapUnits": 25_000 * USD,
    "feedCapUnits": 100_000 * USD,
}
POOL = {
    "address": OTHER,
    "name": "Uniswap v3 BNKR/USDC 1%",
    "referenceLiquidity": "340282366920938463463374607431768211455",
}
POOL_FEED = {
    "kind": "pool",
    "key": "BNKR/market_cap",
    "address": ADDRESS,
    "memorySeconds": 1_860,
    "maxAgeSeconds": 3_600,
    "potCapUnits": 25_000 * USD,
    "feedCapUnits": 100_000 * USD,
    "token": OTHER,
    "tokenDecimals": 18,
    "quote": ADDRESS,
    "supply": "100000000000000000000000000000",
    "pools": [POOL],
    "windowSeconds": 1_800,
    "stepSeconds": 60,
    "maxQuietSeconds": 3_600,
}


@pytest.fixture
def stock() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / "stock.json").read_text())
    return content


def _load(folder: Path, content: object) -> Deployment:
    file = folder / "stock.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return load_deployment(file)


def test_base() -> None:
    base = load_deployment(FOLDER / "base.json")
    assert (base.chain_id, base.kind, base.status) == (8453, "op-stack", "not-deployed")
    assert base.blocks_are_regular
    assert base.params == {
        "feeBps": 200,
        "minWeightUnits": USD,
        "maxWeightUnits": 1_000 * USD,
        "disputeWindowSeconds": 12 * 3_600,
        "voidDelaySeconds": 72 * 3_600,
    }
    usdc = base.token("USDC")
    assert (usdc.address, usdc.decimals, usdc.domain_name, usdc.domain_version) == (ADDRESS, 6, "USD Coin", "2")


def test_the_stock_chain() -> None:
    stock = load_deployment(FOLDER / "stock.json")
    assert (stock.chain_id, stock.kind, stock.status) == (4663, "arbitrum-orbit", "not-deployed")
    usdg = stock.token("USDG")
    assert (usdg.address, usdg.domain_name, usdg.domain_version) == (OTHER, "Global Dollar", "1")
    assert {feed.ticker: (feed.proxy, feed.stock_token) for feed in stock.price_feeds} == {
        "NVDA": ("0x379EC4f7C378F34a1B47E4F3cbeBCbAC3E8E9F15", "0xd0601CE157Db5bdC3162BbaC2a2C8aF5320D9EEC"),
        "TSLA": ("0x4A1166a659A55625345e9515b32adECea5547C38", "0x322F0929c4625eD5bAd873c95208D54E1c003b2d"),
        "COIN": ("0xA3a468A452940B7D6b69991207B508c609a98Ef2", "0x6330D8C3178a418788dF01a47479c0ce7CCF450b"),
    }
    for feed in stock.price_feeds:
        assert (feed.decimals, feed.deviation_bps, feed.heartbeat_seconds) == (8, 50, 86_400)
    assert (stock.param("kappa"), stock.param("feeBps"), stock.param("voidDelaySeconds")) == (10, 200, 72 * 3600)
    assert stock.param("seedPerLeg") == 3_000_000


def test_the_schema_file_is_the_models() -> None:
    assert (FOLDER / "schema.json").read_bytes() == json_schema()


def test_the_files_pass_the_schema_as_others_would_check_it() -> None:
    schema = json.loads((FOLDER / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for name in ("base", "stock"):
        jsonschema.validate(json.loads((FOLDER / f"{name}.json").read_text()), schema)


def _set(*path: Any, to: Any) -> Any:
    def change(content: Any) -> None:
        for part in path[:-1]:
            content = content[part]
        content[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("chainId", to="4663"), "chainId: input should be a valid integer"),
        (_set("chainId", to=True), "chainId"),
        (_set("kind", to="rollup"), "kind: input should be 'arbitrum-orbit', 'op-stack' or 'local'"),
        (
            _set("feeds", 2, "proxy", to="0x6B22A786bAa607d76728168703a39Ea9C99f2cD1"),
            "feeds[2].proxy: not an address with",
        ),
        (_set("feeds", 0, "proxy", to="0x379ec4f7c378f34a1b47e4f3cbebcbac3e8e9f15"), "EIP-55 checksum"),
        (_set("feeds", 0, "stockToken", to="0x12"), "feeds[0].stockToken"),
        (_set("feeds", 0, "ticker", to="TSLA"), "ticker TSLA is listed twice"),
        (_set("feeds", 0, "colour", to="green"), "feeds[0].colour: extra inputs are not permitted"),
        (_set("tokens", "USDG", "symbol", to="USDC"), "token USDG has the symbol USDC"),
        (_set("status", to="deployed"), "status is deployed, but no contract is listed"),
        (_set("network", to="base"), "network is 'base', but the file is 'stock'"),
        (_set("explorerUrl", to="https://scan.example/"), "explorerUrl"),
        (_set("safe", to={"address": ADDRESS, "threshold": 2, "owners": [OTHER]}), "threshold is higher"),
        (_set("params", "kappa", to=30.5), "params.kappa"),
        (_set("feeds", to=[FEED | {"memorySeconds": 599}]), "the memory of BNKR/market_cap (599 s) is shorter"),
        (_set("feeds", to=[FEED | {"maxLagSeconds": 0}]), "feeds[0].maxLagSeconds"),
        (_set("feeds", to=[FEED, POOL_FEED]), "feed BNKR/market_cap is listed twice"),
        (_set("feeds", to=[FEED, POOL_FEED | {"key": "OTHER/market_cap"}]), f"feed address {ADDRESS} is listed twice"),
        (_set("feeds", to=[{"kind": "published", "key": "BNKR/market_cap"}]), "feeds[0].maxLagSeconds"),
        (_set("feeds", to=[FEED | {"kind": "observed"}]), "feeds[0]: input tag 'observed' found using 'kind'"),
        (_set("feeds", to=[POOL_FEED | {"memorySeconds": 1_859}]), "(1859 s) is shorter than its window plus one step"),
        (_set("feeds", to=[POOL_FEED | {"maxAgeSeconds": 59}]), "(59 s) is not between 1 and 1440 steps of 60 s"),
        (_set("feeds", to=[POOL_FEED | {"maxAgeSeconds": 86_401}]), "(86401 s) is not between 1 and 1440 steps"),
        (_set("feeds", to=[POOL_FEED | {"supply": 10**11}]), "feeds[0].supply: not a positive whole number"),
        (_set("feeds", to=[POOL_FEED | {"supply": "1e29"}]), "feeds[0].supply: not a positive whole number"),
        (_set("feeds", to=[POOL_FEED | {"supply": str(1 << 128)}]), "feeds[0].supply: not a positive whole number"),
        (_set("feeds", to=[POOL_FEED | {"pools": []}]), "feeds[0].pools: "),
        (_set("feeds", to=[POOL_FEED | {"pools": [POOL, POOL]}]), f"both pools of BNKR/market_cap are {OTHER}"),
        (_set("feeds", to=[POOL_FEED | {"maxLagSeconds": 1}]), "feeds[0].maxLagSeconds: extra inputs"),
    ],
)
def test_refusals_name_the_file_the_place_and_the_fault(tmp_path: Path, stock: Any, change: Any, said: str) -> None:
    change(stock)
    with pytest.raises(DeploymentError) as e:
        _load(tmp_path, stock)
    assert said in e.value.message
    assert str(tmp_path / "stock.json") in e.value.message
    assert e.value.exit_code == EXIT_CONFIG


@pytest.mark.parametrize("content", ["{", "", "[]", "null", '{"network": 1}'])
def test_what_is_no_deployment_at_all(tmp_path: Path, content: str) -> None:
    with pytest.raises(DeploymentError, match=r"stock\.json is"):
        _load(tmp_path, content)


def test_a_missing_file() -> None:
    with pytest.raises(DeploymentError, match="does not exist") as e:
        load_deployment(Path("/nowhere/stock.json"))
    assert "VPM_DEPLOYMENTS_DIR" in e.value.hint


def test_asking_for_what_is_not_there() -> None:
    stock = load_deployment(FOLDER / "stock.json")
    for ask in (
        lambda: stock.token("USDC"),
        lambda: stock.contract("Safe"),
        lambda: stock.param("x"),
        lambda: stock.agent_feed("BNKR/market_cap"),
    ):
        with pytest.raises(DeploymentError, match="stock"):
            ask()


def _deployed(deployment: Deployment, **contracts: str) -> Deployment:
    infos = {name: ContractInfo(address=address, role="a role") for name, address in contracts.items()}
    return deployment.model_copy(update={"status": "deployed", "contracts": infos, "start_block": 7})


def test_written_and_read_again_is_the_same(tmp_path: Path, stock: Any) -> None:
    deployment = _deployed(_load(tmp_path, stock), VestedMarkets=ADDRESS)
    write_deployment(deployment, tmp_path / "stock.json")
    assert load_deployment(tmp_path / "stock.json") == deployment
    assert [path.name for path in tmp_path.iterdir()] == ["stock.json"]


def test_a_deployed_contract_is_never_overwritten(tmp_path: Path, stock: Any) -> None:
    plain = _load(tmp_path, stock)
    file = tmp_path / "stock.json"
    write_deployment(_deployed(plain, VestedMarkets=ADDRESS), file)
    before = file.read_bytes()
    for bad in (plain, _deployed(plain, VestedMarkets=OTHER), _deployed(plain, MarketLister=ADDRESS)):
        with pytest.raises(DeploymentError, match=f"already records VestedMarkets at {ADDRESS}"):
            write_deployment(bad, file)
    moved = _deployed(plain, VestedMarkets=ADDRESS).model_copy(update={"chain_id": 1})
    with pytest.raises(DeploymentError, match="for chain 4663, not 1"):
        write_deployment(moved, file)
    assert file.read_bytes() == before
    write_deployment(_deployed(plain, VestedMarkets=ADDRESS, MarketLister=OTHER), file)
    assert set(load_deployment(file).contracts) == {"VestedMarkets", "MarketLister"}


def test_a_pool_feed_keeps_every_digit(tmp_path: Path, stock: Any) -> None:
    """Supplies and liquidity pass 64 bits, which JSON readers round."""
    stock["feeds"] = [*stock["feeds"], FEED | {"key": "OTHER/users", "address": OTHER}, POOL_FEED]
    jsonschema.validate(stock, json.loads((FOLDER / "schema.json").read_text()))
    first = _load(tmp_path, stock)
    write_deployment(first, tmp_path / "stock.json")
    again = load_deployment(tmp_path / "stock.json")
    assert again == first
    (feed,) = again.pool_feeds
    assert feed == again.agent_feed("BNKR/market_cap") != again.agent_feed("OTHER/users")
    assert (feed.supply, feed.pools[0].reference_liquidity, feed.max_lag_seconds) == (10**29, (1 << 128) - 1, 0)
    assert len(again.price_feeds) == 3
    assert [each.key for each in again.agent_feeds] == ["OTHER/users", "BNKR/market_cap"]


def test_the_file_is_named_after_its_network(tmp_path: Path, stock: Any) -> None:
    with pytest.raises(DeploymentError, match=r"must be written to stock\.json"):
        write_deployment(_load(tmp_path, stock), tmp_path / "base.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, stock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = _load(tmp_path, stock)
    before = (tmp_path / "stock.json").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DeploymentError, match="No space left on device"):
        write_deployment(deployment, tmp_path / "stock.json")
    assert (tmp_path / "stock.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["stock.json"]


# ---------------------------------------------------------------- what the deployment scripts write


def test_every_holder_of_a_power_is_named_in_the_file() -> None:
    a, b, c = (create_address(ADDRESS, number) for number in range(3))
    holders = Holders(listers=[a], relayers=[b, c], creditors=[a], guardians=[b, c], publisher=c)
    assert holders.wallets() == {
        "publisher": c,
        "lister": a,
        "creditor": a,
        "guardian": b,
        "guardian 1": c,
        "relay 0": b,
        "relay 1": c,
    }


def test_the_arguments_of_a_constructor_go_by_their_names() -> None:
    """Owner and treasury are both addresses: in the wrong order they would change places in silence."""
    encoded: list[Any] = []

    def serialize(*args: Any) -> Any:
        encoded.append(args)
        return SimpleNamespace(data=b"code")

    inputs = [SimpleNamespace(name="owner_"), SimpleNamespace(name="target_")]
    container = SimpleNamespace(
        contract_type=SimpleNamespace(constructor=SimpleNamespace(inputs=inputs)),
        constructor=SimpleNamespace(serialize_transaction=serialize),
    )
    new = Transactions(ADDRESS, 7, SimpleNamespace(Pauser=container), {"Pauser": "stops bets"})
    assert new["Pauser"] == create_address(ADDRESS, 7)
    new.put("Pauser", target="t", owner="o")
    assert encoded == [("o", "t")]
    (made,) = new.steps
    assert (made.role, made.args, made.address) == ("stops bets", {"owner": "o", "target": "t"}, new["Pauser"])
    with pytest.raises(TypeError, match="arguments of Pauser are owner, target, not owner"):
        new.put("Pauser", owner="o")
