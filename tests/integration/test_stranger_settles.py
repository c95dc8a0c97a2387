"""Markets of pool feeds settled by a stranger with a fresh checkout, the deployment file, a node, and any key.

The commands are those of docs/pool-feeds.md. No daemon and no database of ours runs. The checkout uses the packages of
this one; with VPM_TEST_LONG=1 `./vpm` fetches them, as it would for a stranger.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.agent.bet import market_key
from core.contracts.abi import abi
from core.contracts.deployments import write_deployment
from core.contracts.statuses import AgentMarketStatus, MarketKind, StakeStatus
from core.feeds.grid import grid_time
from core.money import USD
from core.paths import REPOSITORY
from scripts._stack import wallets
from tests.support.agent_chain import AgentChain
from tests.support.genesis import Genesis, chain
from tests.support.keeper_stakes import bound
from tests.support.pool_chain import PoolChain, with_pool_feed

LONG = os.environ.get("VPM_TEST_LONG") == "1"
ALICE, BOB, CAROL = wallets.DEV[:3]
STRANGER = wallets.wallet("a stranger who settles")
UP, DOWN = YES, NO = 0, 1
DOWN_ON_BOB, UP_ON_ALICE, LATE = 20 * USD, 10 * USD, 7 * USD

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900 if LONG else 300)]


@dataclass(frozen=True)
class Checkout:
    """The stranger's files, which are the repository's committed ones, and a chain that others made."""

    folder: Path
    played: PoolChain

    @property
    def agents(self) -> AgentChain:
        return self.played.agents

    def settles(self, market: str) -> str:
        """Run the page's commands and return what they print."""
        section = (self.folder / "docs" / "pool-feeds.md").read_text().split("## Settling without us")[1]
        found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
        assert found is not None
        typed = found[1]
        if not LONG:
            typed = typed.replace("./vpm", "python -m scripts._vpm.cli").replace("source .vpm/env/activate\n", "")
        file = f"deployments/{self.agents.deployment.network}.json"
        mine = {
            "RPC": self.agents.url,
            "MARKET": market,
            "VPM_RECORDER_KEY": STRANGER.private_key,
            "DEPLOYMENT_FILE": file,
        }
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", typed],
            cwd=self.folder,
            env={**kept, **mine, "HOME": str(self.folder.parent)},
            capture_output=True,
            text=True,
            timeout=600 if LONG else 120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def market(self, market: str) -> Any:
        return self.agents.read(self.agents.contracts.settlement.call("market", market_key(market)))

    def stake(self, number: int, market: str) -> Any:
        settlement = self.agents.contracts.settlement
        (identity,) = self.agents.read(settlement.call("stakesOf", market_key(market), number, 1))
        return self.agents.read(settlement.call("stake", identity))

    def bets(self, market: str, who: wallets.Wallet, outcome: int, amount: int) -> None:
        given = bound(self.agents.deployment, self.agents.now, who, market, outcome, amount, f"{market} {who.address}")
        self.agents.send(self.agents.contracts.settlement.call("settle", given.bet, given.authorization), BOB.address)

    def comes_late(self, market: str, who: wallets.Wallet, amount: int, closes_at: int) -> None:
        """Send the payment directly to the token, which is noticed only after the market closed for stakes."""
        given = bound(self.agents.deployment, self.agents.now, who, market, UP, amount, f"late {market}")
        _, value, after, before, nonce, signature = given.authorization
        spend = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
        settlement = self.agents.contracts.settlement
        to = settlement.address
        payment = self.agents.contracts.token.call(spend, who.address, to, value, after, before, nonce, signature)
        self.agents.send(payment, BOB.address)
        self.agents.warp_to(closes_at)
        credit = settlement.call("credit", given.bet, given.authorization)
        self.agents.send(credit, self.agents.deployment.operator_wallets["creditor"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Check out only what is committed."""
    folder = tmp_path_factory.mktemp("stranger") / "checkout"
    packed = subprocess.run(["git", "archive", "HEAD"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.fixture
def checkout(folder: Path, quick: PoolChain) -> Checkout:
    """Prepare a feed that falls silent after ten minutes, with a reading every minute."""
    write_deployment(quick.agents.deployment, folder / "deployments" / f"{quick.agents.deployment.network}.json")
    return Checkout(folder, quick)


@pytest.fixture(scope="module")
def quick(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolChain]:
    home = tmp_path_factory.mktemp("quick")
    with chain(local_genesis, "base", home / "base.log") as running:
        yield _known_to_him(with_pool_feed(AgentChain.on(running.url, running.deployment), home))


def _known_to_him(played: PoolChain) -> PoolChain:
    played.agents.ask("anvil_setBalance", STRANGER.address, hex(10**18))
    return played


def _errors() -> dict[str, str]:
    """Return the errors' names by what `cast` shows of them."""
    contracts = ("FeedResolver", "PoolFeed", "SettlementWallet")
    return {"0x" + selector.hex(): each.name for name in contracts for selector, each in abi(name).errors.items()}


def _shown(error: str) -> str:
    return next(shown for shown, name in _errors().items() if name == error)


def test_the_page_names_the_errors() -> None:
    page = (REPOSITORY / "docs" / "pool-feeds.md").read_text()
    named = dict(re.findall(r"^\| `(0x[0-9a-f]{8})` \| `(\w+)` \|", page, re.MULTILINE))
    assert {"AlreadySettled", "ReadingNotPositive"} <= set(named.values())  # those that are met below
    assert named == {shown: _errors().get(shown) for shown in named}


def test_a_direction_pays_its_winner_and_gives_back_what_came_late(checkout: Checkout) -> None:
    played, agents = checkout.played, checkout.agents
    market, terms = played.list(MarketKind.DIRECTION)
    checkout.bets(market, ALICE, UP, UP_ON_ALICE)
    checkout.bets(market, BOB, DOWN, DOWN_ON_BOB)
    closes_at = checkout.market(market)["closesAt"]
    checkout.comes_late(market, CAROL, LATE, closes_at)
    step = played.feed.step_seconds
    played.trade(terms["endsAt"] - played.now + 2 * step)
    had = {who.address: agents.balance(who.address) for who in (ALICE, BOB, CAROL, STRANGER)}
    said = checkout.settles(market)
    assert f"{played.feed.key}: recorded" in said
    start, end = (played.reading(grid_time(terms[each], step)) for each in ("startAt", "endsAt"))
    assert start != end
    winner = UP if end > start else DOWN
    view = checkout.market(market)
    assert (view["status"], view["winner"]) == (AgentMarketStatus.RESOLVED, winner)
    pot = sum(each - each * view["feeBps"] // 10_000 for each in (UP_ON_ALICE, DOWN_ON_BOB))  # fees are rounded down
    got = {address: agents.balance(address) - before for address, before in had.items()}
    won, lost = (ALICE, BOB) if winner == UP else (BOB, ALICE)
    assert got == {won.address: pot, lost.address: 0, CAROL.address: LATE, STRANGER.address: 0}
    assert checkout.stake(2, market)["status"] == StakeStatus.REFUNDED
    # Settling again pays no one twice.
    with pytest.raises(AssertionError, match=_shown("AlreadySettled")):
        checkout.settles(market)
    assert agents.balance(won.address) == had[won.address] + pot
