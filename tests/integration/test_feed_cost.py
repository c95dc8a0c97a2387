"""`vpm feed cost` against genuine pools on a local chain: it reads what they hold, and the costs it states are those of
the same swaps there."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from core.chain import ChainClient, Contract
from core.chain.provider import ChainProvider
from core.contracts.deployments import load_deployment, write_deployment
from core.contracts.feeds import PoolFactory
from core.feeds.cost import SECONDS_PER_YEAR, PricedPool, price_after_move
from core.feeds.live import CostReport, read_pool
from core.feeds.uniswap import MAX_TICK, Q96, sqrt_price_at
from core.paths import REPOSITORY
from scripts._deploy import build
from scripts._deploy.build import creation_code
from scripts._feed import __main__ as feed
from scripts._stack.uniswap import PoolKey, pool_abi
from tests.conftest import StartAnvil
from tests.support.uniswap_world import World

STEP, STEPS, DEVIATION = 60, 150, 0.002
YEARLY = DEVIATION * math.sqrt(SECONDS_PER_YEAR / STEP)


@dataclass(frozen=True)
class Played:
    """A pool with a history of `STEPS` minutes in which its price wandered, and a pool of its token1 and a dollar."""

    url: str
    world: World
    opened: int
    last_swap: int
    dollar: str
    dollar_pool: str


@pytest.fixture(scope="module")
def played(module_anvil: StartAnvil, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    asyncio.run(build.compile_all())
    url = module_anvil().url
    world = World.make(url, 3_000, int(sqrt_price_at(-30_000) * Q96))
    opened = world.now
    world.who.send(Contract(world.address, pool_abi()).call("increaseObservationCardinalityNext", 400))
    edge = MAX_TICK // 60 * 60
    world.provide(-edge, edge, 10**24, 10**24)
    world.provide(-36_000, -24_000, 10**25, 10**25)
    world.provide(-30_600, -29_400, 10**24, 10**24)
    dice = random.Random("wandering")
    began = world.now
    for step in range(1, STEPS + 1):
        world.now = began + step * STEP
        world.swap(int(price_after_move(world.sqrt_price / Q96, dice.gauss(0, DEVIATION)) * Q96))
    last_swap = world.now
    world.wait(STEP)
    who, exchange = world.who, world.exchange
    code = creation_code("LocalAgentToken")
    dollar = who.deploy("Dollar", code, ["string", "string", "uint256"], ["Dollar", "USD", 2**120])
    exchange.approve(who, dollar)
    key = PoolKey.for_pair(world.key.token1, dollar, 500)
    pool = exchange.open_pool(who, key, int(sqrt_price_at(80_000 if key.token1 == dollar else -80_000) * Q96))
    exchange.provide_everywhere(who, key, 10**26, 10**26)
    folder = tmp_path_factory.mktemp("deployments")
    local = {"network": "base", "chain_id": 31_337, "kind": "local", "tokens": {}}
    made_by = (PoolFactory(name="Uniswap v3", address=exchange.factory),)
    base = load_deployment(REPOSITORY / "deployments" / "base.json")
    write_deployment(base.model_copy(update={**local, "pool_factories": made_by}), folder / "base.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VPM_DEPLOYMENTS_DIR", str(folder))
        yield Played(url, world, opened, last_swap, dollar, pool)


def run_cost(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = feed.main(["cost", *argv])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.thorough
async def test_what_it_reads_is_the_pool(played: Played) -> None:
    async with ChainProvider([played.url], chain_id=None) as rpc:
        client = ChainClient(rpc)
        live = await read_pool(client, played.world.address, await client.head())
    pool = played.world.pool()
    near = [-36_000, -30_600, -29_400, -24_000]
    assert live.pool == replace(pool, net={tick: pool.net[tick] for tick in near})
    assert (live.cardinality, live.cardinality_next) == (400, 400)
    assert (live.oldest_at, live.newest_at) == (played.opened, played.last_swap)


@pytest.mark.parametrize("move", [0.005, -0.05, 0.2])
@pytest.mark.thorough
def test_what_a_push_costs_is_what_it_costs_on_the_chain(played: Played, move: float) -> None:
    world = played.world
    pool, saved, start = world.pool(), world.node.ask("evm_snapshot"), world.sqrt_price
    source = PricedPool("", pool, 1e-18 * 1.0001**pool.tick, 1e-18)
    costs = []
    for to in (int(price_after_move(pool.sqrt_price, move) * Q96), start):
        world.wait(2)
        before = _balances(world)
        world.swap(to)
        lost0, lost1 = (was - now for was, now in zip(before, _balances(world), strict=True))
        costs.append(lost0 * source.usd0 + lost1 * source.usd1)
    kept, both = costs[0], sum(costs)
    assert source.push_cost(move) == pytest.approx(min(both, kept), rel=1e-9)
    assert both > 0
    world.node.ask("evm_revert", saved)


def _balances(world: World) -> tuple[int, int]:
    return world.balance(world.key.token0), world.balance(world.key.token1)


def cost_of(*argv: str) -> CostReport:
    return asyncio.run(feed.cost_of(feed.parse(["cost", *argv])))


def test_one_pool_by_its_own_past(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    world = played.world
    given = (world.address, "--rpc", played.url, "--quote", world.key.token1, "--window", "600")
    cost = cost_of(*given)
    assert cost.token.address == world.key.token0
    assert cost.price == pytest.approx(1.0001 ** world.pool().tick, rel=1e-3)
    assert 0.5 * YEARLY < cost.sigma.yearly < 1.3 * YEARLY
    assert cost.cap.by_push_out is not None
    assert cost.cap.dollars == min(cost.cap.by_pushes, cost.cap.by_push_out)
    out = cost.sources[0].push_out(600, cost.asked.own_share)
    assert out is not None
    assert out.seconds > 0
    code, said, _ = run_cost(capsys, *given)
    assert code == 0
    assert f"feed cap, for all unsettled markets together: {math.floor(cost.cap.dollars):,} USD" in said
    assert "history: 2.5 h; room for 400 observations (growing to 400); the last is" in said


def test_a_given_volatility_and_share_make_the_cap(played: Played) -> None:
    world = played.world
    given = (world.address, "--rpc", played.url, "--quote", world.key.token1, "--sigma", "300")
    half, none = (cost_of(*given, "--own-share", share) for share in ("50", "0"))
    assert half.sigma.origin == "given"
    assert half.cap.by_pushes == pytest.approx(none.cap.by_pushes / 2, rel=1e-3)
    assert half.cap.sd == pytest.approx(3 / math.sqrt(SECONDS_PER_YEAR) * math.sqrt(600), rel=1e-3)


def test_two_pools_price_the_token_through_the_one_between(played: Played) -> None:
    world = played.world
    pools = (world.address, played.dollar_pool)
    cost = cost_of(*pools, "--rpc", played.url, "--quote", played.dollar, "--sigma", "200")
    assert cost.price == pytest.approx(1.0001 ** (world.pool().tick + 80_000), rel=1e-3)
    assert cost.cap.reach == pytest.approx(0.0035 / (2 / math.sqrt(SECONDS_PER_YEAR) * math.sqrt(1_800)), rel=1e-3)
    weaker = min(0.003 * cost.sources[0].depth(), 0.0005 * cost.sources[1].depth())
    assert 0 < cost.cap.resistance < weaker / 2


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["0x12"], "0x12 is not an address"),
        (["{token}", "--quote", "{quote}"], "does not return its factory, tokens and fee"),
        (["{pool}", "--quote", "{dollar}"], "neither is the dollar token"),
        (["{pool}", "{pool}", "{pool}"], "A feed has one or two pools"),
        (["{pool}", "--quote", "{quote}", "--window", "86400"], "their volatility cannot be measured"),
        (["{pool}"], "does not name USDC"),
        (["{pool}", "--quote", "{quote}", "--own-share", "100"], "--own-share cannot be 100%"),
        (["{pool}", "--quote", "{quote}", "--sigma", "0"], "--sigma cannot be 0%"),
        (["{pool}", "--quote", "{quote}", "--window", "5"], "A window of 5 s is too short"),
    ],
)
def test_it_says_why_it_cannot_estimate(
    played: Played, capsys: pytest.CaptureFixture[str], argv: list[str], said: str
) -> None:
    key = played.world.key
    names = {"pool": played.world.address, "token": key.token0, "quote": key.token1, "dollar": played.dollar}
    code, out, err = run_cost(capsys, *(word.format(**names) for word in argv), "--rpc", played.url)
    assert (code, out) == (2, "")
    assert said in err
