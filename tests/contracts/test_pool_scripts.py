"""The ape scripts for pool feeds, as an operator runs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from eth_utils.address import to_checksum_address

from core.chain import ChainClient
from core.chain.provider import ChainProvider
from core.contracts.deployments import load_deployment
from core.contracts.feeds import PoolFeed
from core.errors import DeploymentError
from core.feeds.live import CostQuestion, NoPool, report
from core.money import USD
from core.paths import REPOSITORY
from scripts._deploy import pools
from scripts._deploy.session import ScriptRefused
from scripts._local.anvil import ask
from scripts._stack import agent_pools, ape
from scripts._stack.agent_pools import AgentPools
from tests.contracts.test_scripts import _ape, ape_folder, facts
from tests.support.genesis import Genesis, RunningChain, chain
from tests.support.live_node import live_looking

__all__ = ["ape_folder", "facts"]
pytestmark = pytest.mark.timeout(600)

KEY = "WETH/market_cap"


@dataclass(frozen=True)
class Pooled:
    """A chain with pools, and a file that requests a feed that is not deployed: of ether, from its pool with USDC."""

    chain: RunningChain
    file: Path

    @property
    def now(self) -> int:
        return int(ask(self.chain.url, "eth_getBlockByNumber", "latest", False)["timestamp"], 16)


@pytest.fixture(scope="module")
def pooled(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    folder = tmp_path_factory.mktemp("pooled")
    with chain(local_genesis, "base", folder / "anvil.log") as running:
        ask(running.url, "evm_mine")
        made = AgentPools.load(local_genesis.state.pools)
        path = folder / "pools.toml"
        path.write_text(
            f'["{KEY}"]\ntoken = "{agent_pools.WETH}"\nwindow = 120\nstep = 10\n'
            "max_quiet = 86400\nmax_age = 3600\npot_cap = 50\nfeed_cap = 100\n\n"
            f'[["{KEY}".pools]]\naddress = "{made.weth.address}"\nname = "Uniswap v3 WETH/USDC 0.05%"\n'
        )
        yield Pooled(running, path)


@pytest.mark.thorough
def test_a_pool_feed_is_deployed_allowed_and_checked(pooled: Pooled, facts: Path, ape_folder: Path) -> None:
    url, file = pooled.chain.url, facts / "base.json"
    where = ["--network", url, "--deployment", str(file)]
    sending = [*where, "--account", ape.ACCOUNT]
    untouched = file.read_bytes()

    # A live network is shown a dry run, and never has so short a window.
    with live_looking(url) as live:
        done = _ape(ape_folder, "deploy_pools", "--network", live, *sending[2:], "--pools", str(pooled.file))
    assert done.returncode != 0
    assert f"the window of {KEY} is 120 s, but a live network needs at least 1800 s" in done.stderr
    long = pooled.file.with_name("long.toml")
    long.write_text(pooled.file.read_text().replace("window = 120\nstep = 10", "window = 1800\nstep = 60"))
    with live_looking(url) as live:
        done = _ape(ape_folder, "deploy_pools", "--network", live, *sending[2:], "--pools", str(long))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dry run (use --send to send)" in done.stdout
    assert f"{KEY}: 1800 s, every 60 s, over Uniswap v3 WETH/USDC 0.05%" in done.stdout
    # The pools were made two hours before the genesis was.
    long.write_text(pooled.file.read_text().replace("window = 120\n", "window = 2000000\n"))
    done = _ape(ape_folder, "deploy_pools", *sending, "--pools", str(long))
    assert done.returncode != 0
    assert "cannot report its last 2000000 s" in done.stderr
    assert file.read_bytes() == untouched

    done = _ape(ape_folder, "deploy_pools", *sending, "--pools", str(pooled.file))
    assert done.returncode == 0, done.stdout + done.stderr
    deployment = load_deployment(file)
    source = deployment.agent_feed(KEY)
    assert isinstance(source, PoolFeed)
    info = deployment.contract(pools.contract_name(KEY))
    assert (info.address, source.memory_seconds, source.pot_cap_units) == (source.address, 130, 50 * USD)
    config = info.constructor_args["config"]
    assert (
        config["supply"] == str(source.supply) == str(agent_pools.TRADER_ETH * 10**18)
    )  # text: no JSON number holds it
    assert [pool.name for pool in source.pools] == ["Uniswap v3 WETH/USDC 0.05%"]

    done = _ape(ape_folder, "check_wiring", *where)
    assert f"open  {KEY} is not allowed for markets yet; run ape run allow_feed" in done.stdout, done.stdout
    assert "0 wrong, 1 open" in done.stdout
    assert f"ok    the code of {pools.contract_name(KEY)} matches these sources" in done.stdout

    done = _ape(ape_folder, "deploy_pools", *sending, "--pools", str(pooled.file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing to do: every feed of the file is already deployed" in done.stdout
    longer = pooled.file.with_name("longer.toml")
    longer.write_text(pooled.file.read_text().replace("window = 120", "window = 180"))
    done = _ape(ape_folder, "deploy_pools", *sending, "--pools", str(longer))
    assert done.returncode != 0
    assert f"{KEY} is already deployed with a different window (120; the file says 180)" in done.stderr

    # With real money a cap beyond what the pools bear needs something to show for it.
    capacity = f"{KEY}: the caps are 100.00 USD for all markets together and 50.00 USD for each; the pools support "
    with live_looking(url) as live:
        asking = ["--network", live, *sending[2:], "--feed", KEY]
        done = _ape(ape_folder, "allow_feed", *asking)
        assert done.returncode != 0
        assert capacity in done.stderr
        assert "use --evidence to name a document" in done.stderr
        assert load_deployment(file).agent_feed(KEY) == source
        done = _ape(ape_folder, "allow_feed", *asking, "--evidence", "https://example.org/arbitrage")
    assert done.returncode == 0, done.stdout + done.stderr
    assert capacity in done.stdout
    assert f"allow agent markets on {KEY}" in done.stdout  # for the owners to sign
    shown = load_deployment(file).agent_feed(KEY)
    assert isinstance(shown, PoolFeed)
    assert shown.pot_cap_evidence == "https://example.org/arbitrage"

    # Its first reading is too old after so long: a fresh one is recorded before the Safe is asked.
    ask(url, "evm_increaseTime", hex(2 * source.max_age_seconds))
    ask(url, "evm_mine")
    before = pooled.now
    done = _ape(ape_folder, "allow_feed", *sending, "--feed", KEY, owners=2)
    assert f"done by the Safe: allow agent markets on {KEY}" in done.stdout, done.stdout + done.stderr
    assert "A local chain allows this" in done.stdout
    newest = ask(url, "eth_call", {"to": source.address, "data": "0xfeaf968c"}, "latest")  # latestRoundData()
    assert before - source.step_seconds <= int(newest[2 + 3 * 64 : 2 + 4 * 64], 16) < pooled.now

    done = _ape(ape_folder, "check_wiring", *where)
    assert done.returncode == 0, done.stdout
    assert "0 wrong\n" in done.stdout
    assert f"ok    {KEY} has no publisher according to the lister" in done.stdout

    # What the file says of a feed is compared with the feed itself.
    wrong = json.loads(file.read_text())
    feed = next(each for each in wrong["feeds"] if each.get("key") == KEY)
    feed |= {"supply": str(source.supply + 1), "windowSeconds": 119}
    feed["pools"][0]["referenceLiquidity"] = "1"
    file.write_text(json.dumps(wrong))
    done = _ape(ape_folder, "check_wiring", *where)
    assert f"WRONG {KEY} supply is {source.supply}, but the file says {source.supply + 1}" in done.stdout
    assert f"WRONG {KEY} window (s) is 120, but the file says 119" in done.stdout
    assert f"WRONG {KEY} pools and reference liquidity is" in done.stdout
    assert "3 wrong" in done.stdout


ASKED = f"""\
["{KEY}"]
token = "{agent_pools.WETH}"
window = 120
max_quiet = 86400
max_age = 3600
pot_cap = 50
feed_cap = 100
[["{KEY}".pools]]
address = "{agent_pools.WETH}"
name = "Uniswap v3 WETH/USDC 0.05%"
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("window = 120", "window = 0"), f"invalid at {KEY}.window: Input should be greater than or equal to 1"),
        (("pot_cap = 50", ""), f"invalid at {KEY}.pot_cap: Field required"),
        (("max_age", "maximum_age"), f"invalid at {KEY}.max_age: Field required"),
        (("max_quiet = 86400", "max_quiet = 86400\nmaxQuiet = 1"), f"invalid at {KEY}.maxQuiet: Extra inputs"),
        (("0x4200000000", "0xabcdef0000"), "token: Value error, not an address with a correct EIP-55 checksum"),
        (('name = "Uniswap v3 WETH/USDC 0.05%"', 'name = ""'), f"invalid at {KEY}.pools.0.name"),
        (("WETH/market_cap", "the market cap"), "invalid at the market cap: String should match pattern"),
        (("window = 120", "window = twelve"), "is not TOML"),
    ],
)
def test_an_error_says_where_the_file_is_wrong(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    path = tmp_path / "pools.toml"
    path.write_text(ASKED)
    assert pools.read(path)[KEY].step == 60
    path.write_text(ASKED.replace(*change))
    with pytest.raises(DeploymentError) as raised:
        pools.read(path)
    assert said in raised.value.sentence()


def test_a_key_that_a_publisher_has_is_refused(local_genesis: Genesis, tmp_path: Path) -> None:
    path = tmp_path / "pools.toml"
    published = local_genesis.deployment("base").published_feeds[0].key
    path.write_text(ASKED.replace(KEY, published))
    with pytest.raises(ScriptRefused, match="is already the key of a published feed"):
        pools.missing(local_genesis.deployment("base"), pools.read(path))


def test_the_example_reads_once_its_lines_are_uncommented(tmp_path: Path) -> None:
    text = (REPOSITORY / "deployments" / "pools.example.toml").read_text()
    lines = [line[2:] for line in text.splitlines() if line.startswith("# ") and (" = " in line or line[2] == "[")]
    path = tmp_path / "pools.toml"
    path.write_text("\n".join(lines).replace('"0x..."', f'"{agent_pools.WETH}"'))
    asked = pools.read(path)["BNKR/market_cap"]
    assert [pool.name for pool in asked.pools] == ["Uniswap v3 BNKR/WETH 1%", "Uniswap v3 WETH/USDC 0.05%"]
    pools.require_long_windows({"BNKR/market_cap": asked})


def test_constructor_arguments_come_back_as_they_were_given() -> None:
    config = {
        "description": "BNKR / USD market cap",
        "token": agent_pools.WETH,
        "quote": agent_pools.WETH,
        "supply": 10**29,
        "pools": [agent_pools.WETH],
        "referenceLiquidity": [10**24, 7],
        "window": 1_800,
        "step": 60,
        "maxQuiet": 3_600,
    }
    written = {name: pools._as_text(value) for name, value in config.items()}
    assert json.loads(json.dumps(written))["supply"] == str(10**29)
    assert pools.constructor_arguments({"config": written}) == [tuple(config.values())]


ELSEWHERE = "0x5e7BB104d84c7CB9B682AaC2F3d509f5F406809A"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("made_by", "said"),
    [(None, "but that factory's pool for these tokens and this fee is"), (ELSEWHERE, f"was created by {ELSEWHERE}")],
    ids=["a copy of a genuine pool", "a pool of a factory that is not listed"],
)
def test_a_pool_that_no_listed_factory_made_is_refused(
    pooled: Pooled, facts: Path, ape_folder: Path, made_by: str | None, said: str
) -> None:
    """It has a genuine pool's code and storage, so `observe` and all other views return what that pool's do."""
    url, genuine = pooled.chain.url, load_deployment(facts / "base.json").pool_factories[0].address
    real = next(line.split('"')[1] for line in pooled.file.read_text().splitlines() if line.startswith("address"))
    code = str(ask(url, "eth_getCode", real, "latest"))
    if made_by is not None:
        code = code.replace(genuine[2:].lower(), made_by[2:].lower())
    fake = "0x00000000000000000000000000000000000F4cE5"
    ask(url, "anvil_setCode", fake, code)
    for slot in range(12):
        value = ask(url, "eth_getStorageAt", real, hex(slot), "latest")
        ask(url, "anvil_setStorageAt", fake, f"0x{slot:064x}", value)
    asked = pooled.file.with_name("fake.toml")
    asked.write_text(pooled.file.read_text().replace(real, to_checksum_address(fake)).replace(KEY, "FAKE/market_cap"))
    sending = ["--network", url, "--deployment", str(facts / "base.json"), "--account", ape.ACCOUNT]
    done = _ape(ape_folder, "deploy_pools", *sending, "--pools", str(asked))
    assert done.returncode != 0
    assert said in " ".join(done.stderr.split())

    async def cost() -> None:
        async with ChainProvider([url], chain_id=None, timeout_seconds=30.0) as rpc:
            factories = load_deployment(facts / "base.json").pool_factories
            question = CostQuestion((to_checksum_address(fake),), factories, agent_pools.WETH, 1_800, None, 0.5, 200)
            await report(ChainClient(rpc), question)

    with pytest.raises(NoPool, match=said):
        asyncio.run(cost())
