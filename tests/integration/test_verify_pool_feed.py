"""`vpm verify MARKET` on a pool feed: the deciding readings are computed again without trusting the feed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from core.agent.bet import market_key
from core.agent.fixed import WAD, ln_wad
from core.chain import Contract
from core.contracts.statuses import MarketKind
from core.feeds.grid import grid_time
from core.feeds.live import POOL
from scripts._verify.__main__ import main as verify
from tests.support.agent_chain import AgentChain
from tests.support.genesis import Genesis, chain
from tests.support.pool_chain import STEP, STRANGER, WINDOW, PoolChain, with_pool_feed

pytestmark = pytest.mark.timeout(600)

PROMPTLY = 1 << 104  # as PoolFeed stores a reading that counts as a crossing
READINGS_SLOT = 2  # of PoolFeed
QUOTE_TO_8 = 10**2  # USDC has 6 decimals, a reading 8


@dataclass(frozen=True)
class Settled:
    """Two markets that strangers settled: one on the feed, and one on a contract put in its place."""

    played: PoolChain
    deployments: Path
    honest: str
    lied: str

    def claims(
        self, market: str, capsys: pytest.CaptureFixture[str], *options: str
    ) -> tuple[int, dict[str, dict[str, str]]]:
        capsys.readouterr()
        where = ("--rpc", self.played.agents.url, "--deployments", str(self.deployments))
        code = verify([market, *where, "--json", *options])
        claims = json.loads(capsys.readouterr().out)["claims"]
        return code, {each["claim"]: each for each in claims}

    def again(self, market: str, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[dict[str, str]]]:
        """Return the exit code and the recomputed readings, those of the start and of the end."""
        code, claims = self.claims(market, capsys, *options)
        return code, [claims[f"the reading at the {when}, computed again"] for when in ("start", "end")]

    def ends(self, market: str) -> int:
        call = self.played.agents.contracts.resolver.call("terms", market_key(market))
        return grid_time(self.played.agents.read(call)["endsAt"], STEP)


@pytest.fixture(scope="module")
def settled(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settled]:
    folder = tmp_path_factory.mktemp("verify-pool")
    deployments = folder / "deployments"
    deployments.mkdir()
    with chain(local_genesis, "base", folder / "base.log") as running:
        played = with_pool_feed(AgentChain.on(running.url, running.deployment), deployments)
        honest = _settled_by_strangers(played)
        feed = played.feed.address
        genuine = played.agents.ask("eth_getCode", feed, "latest")
        played.agents.ask("anvil_setCode", feed, _thousandth_more(played, genuine))
        lied = _settled_by_strangers(played)
        played.agents.ask("anvil_setCode", feed, genuine)
        yield Settled(played, deployments, honest, lied)


def _settled_by_strangers(played: PoolChain) -> str:
    market, terms = played.list(MarketKind.DIRECTION)
    played.trade(terms["endsAt"] - played.now + 2 * STEP)
    played.record(*(grid_time(terms[each], STEP) for each in ("startAt", "endsAt")))
    resolve = played.agents.contracts.resolver.call("resolve(bytes32)", market_key(market))
    played.agents.send(resolve, STRANGER.address)
    return market


def _thousandth_more(played: PoolChain, code: str) -> str:
    """Return the feed's code, changed to compute with a thousandth more supply than it reports."""
    claimed, used = (
        ln_wad(supply * QUOTE_TO_8 * WAD) for supply in (played.feed.supply, played.feed.supply * 1_001 // 1_000)
    )
    assert code.count(f"{claimed:064x}") >= 1
    return code.replace(f"{claimed:064x}", f"{used:064x}")


def _comes_round(played: PoolChain) -> None:
    """Swap in the token's pool until its ring holds nothing older.

    By now the ring has used only a few of its places. The others are taken from it first, which leaves the pool as if
    it had grown less, because filling all 4,000 would only take longer.
    """
    pool = Contract(played.pools.get(played.feed.key).address, POOL)
    before = played.agents.read(pool.call("slot0"))
    index, size = before[2:4]
    few = index + 2
    assert few < size
    ask = played.agents.ask
    word = int(ask("eth_getStorageAt", pool.address, "0x0", "latest"), 16)
    kept = word & ~(0xFFFFFFFF << 200) | few << 200 | few << 216  # its size, and what it grows to
    ask("anvil_setStorageAt", pool.address, "0x0", f"0x{kept:064x}")
    assert played.agents.read(pool.call("slot0"))[:5] == before[:3] + (few, few)
    played.trade(30 * (few + 2))


def _oldest(played: PoolChain) -> int:
    return int(played.agents.read(played.contract.call("oldestTellable")))


def test_a_true_market_holds_and_a_lying_feed_is_found_out(
    settled: Settled, capsys: pytest.CaptureFixture[str]
) -> None:
    played = settled.played
    code, again = settled.again(settled.honest, capsys)
    assert code == 0
    assert [each["verdict"] for each in again] == ["holds", "holds"]
    assert all(f"observe() of {pool.address}" in each["shownBy"] for pool in played.feed.pools for each in again)
    code, again = settled.again(settled.lied, capsys)
    assert code == 1
    assert [each["verdict"] for each in again] == ["does not hold", "does not hold"]

    # One reading that is one unit off.
    at = settled.ends(settled.honest)
    slot = "0x" + keccak(encode(["uint256", "uint256"], [at // STEP, READINGS_SLOT])).hex()
    kept = played.agents.ask("eth_getStorageAt", played.feed.address, slot, "latest")
    assert int(kept, 16) == PROMPTLY | played.reading(at) << 8 | 1
    other = PROMPTLY | (played.reading(at) + 1) << 8 | 1
    played.agents.ask("anvil_setStorageAt", played.feed.address, slot, f"0x{other:064x}")
    code, again = settled.again(settled.honest, capsys)
    played.agents.ask("anvil_setStorageAt", played.feed.address, slot, kept)
    assert code == 1
    assert [each["verdict"] for each in again] == ["holds", "does not hold"]


def test_the_feeds_own_word_for_what_it_is_made_of_is_not_taken(
    settled: Settled, capsys: pytest.CaptureFixture[str]
) -> None:
    """A contract reports another supply, or no pools, where the deployment file names a pool feed."""
    played = settled.played
    feed = played.feed.address
    genuine = played.agents.ask("eth_getCode", feed, "latest")
    claimed, other = (f"{supply:064x}" for supply in (played.feed.supply, played.feed.supply * 1_001 // 1_000))
    assert claimed in genuine
    played.agents.ask("anvil_setCode", feed, _thousandth_more(played, genuine).replace(claimed, other))
    code, again = settled.again(settled.lied, capsys)
    assert code == 1
    assert [each["verdict"] for each in again] == ["does not hold", "does not hold"]
    sources = keccak(text="sources()")[:4].hex()
    assert sources in genuine
    played.agents.ask("anvil_setCode", feed, genuine.replace(sources, "deadbeef"))
    code, again = settled.again(settled.lied, capsys)
    assert code == 1
    assert [each["verdict"] for each in again] == ["does not hold", "does not hold"]
    played.agents.ask("anvil_setCode", feed, genuine)


def test_a_reading_that_the_pools_have_forgotten_is_known_from_an_archive_node(
    settled: Settled, capsys: pytest.CaptureFixture[str]
) -> None:
    played = settled.played
    played.agents.ask("evm_mine")
    before = int(played.agents.ask("eth_blockNumber"), 16)
    _comes_round(played)
    assert _oldest(played) - WINDOW > settled.ends(settled.lied)
    code, again = settled.again(settled.honest, capsys)
    assert code == 3
    assert [each["verdict"] for each in again] == ["cannot be checked", "cannot be checked"]
    assert all("--block" in each["detail"] for each in again)
    code, again = settled.again(settled.honest, capsys, "--block", str(before))
    assert code == 0
    assert [each["verdict"] for each in again] == ["holds", "holds"]
