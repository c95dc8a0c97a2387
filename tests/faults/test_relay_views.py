"""The relay on a load-balanced node whose views of the chain are some blocks apart.

A bet that is on the chain is never said to be refused or not sent, whichever view answered: then its bettor would sign
another. What the node behind a call has not seen yet is unknown, and the same body is asked for again.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from api.stock.bets import StockBet
from core.chain import Call
from scripts._stack import wallets
from tests.support.inconsistent_node import InconsistentNode
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, USDG
from tests.support.stock_service import StockService
from tests.waiting import until

pytestmark = pytest.mark.timeout(180)

DAY = 86_400
BEHIND = 5
A_MINUTE = 10  # calls that the relay takes of one bettor
STRANGER = wallets.DEV[5].address


@pytest.fixture(scope="module")
def service(stock_venue: StockService) -> StockService:
    chain = stock_venue.chain
    chain.push(FLAT_PRICE)
    stock_venue.start("indexer", "relayer")
    return stock_venue


@pytest.fixture
async def node(service: StockService) -> AsyncIterator[InconsistentNode]:
    """Put the API alone behind a node; the indexer and the relayer ask the chain itself."""
    async with InconsistentNode(service.chain.url, 7) as node:
        node.head_seconds = 0.0
        await asyncio.to_thread(service.start, "api", VPM_STOCK_RPC_URLS=node.url)
        yield node
        await asyncio.to_thread(service.stop, "api")


@pytest.fixture
async def door(service: StockService, node: InconsistentNode) -> AsyncIterator[Door]:
    async with aiohttp.ClientSession() as session:
        yield Door(session, service.url)


@pytest.fixture(scope="module")
def market(service: StockService) -> int:
    return service.chain.open_market(strike_in=3 * DAY, lasts=DAY)


@pytest.fixture(params=["with the index", "without the index"])
def has_index(request: pytest.FixtureRequest, service: StockService) -> Iterator[bool]:
    """Without the index only the node knows of the bet."""
    there = request.param == "with the index"
    if not there:
        service.stop("indexer")
    yield there
    if not there:
        service.start("indexer")


def bettor(service: StockService, name: str, usd: int = 50) -> wallets.Wallet:
    wallet = wallets.wallet(f"{name} {random.randrange(2**32)}")
    service.chain.send(service.chain.contracts.token.call("mint", wallet.address, usd * USDG), STRANGER)
    for _ in range(BEHIND):
        service.chain.mine()  # the views that lag know of the wallet's money
    return wallet


def behind(*calls: Call) -> Any:
    """Send only these calls to the lagging node."""
    selectors = {call.data[:4].hex() for call in calls}

    def lag_of(method: str, params: list[Any]) -> int:
        asked = method == "eth_call" and params[0].get("data", params[0].get("input", ""))[2:10] in selectors
        return BEHIND if asked else 0

    return lag_of


async def landed(
    service: StockService, market: int, name: str, *, usd: int = 50, indexed: bool
) -> tuple[StockBet, dict[str, Any], str]:
    """Put a bet on the chain from another account; return the bet, its body and the transaction."""
    wallet = bettor(service, name, usd)
    bet = service.chain.bet(wallet, market, amount=5 * USDG)
    body = service.chain.signed(wallet, bet)
    call = bet.call(service.chain.contracts.settler, bytes.fromhex(body["signature"][2:]))
    receipt = service.chain.send(call, STRANGER)
    if indexed:
        await asyncio.sleep(1.5)
    return bet, body, str(receipt["transactionHash"])


async def outcome_is_reported(
    node: InconsistentNode, door: Door, body: dict[str, Any], transaction: str, *, indexed: bool
) -> None:
    """Check that the outcome is reported, never a refusal: at once if the index has it, else once the nodes do."""
    response, answer = await door.post("/api/relay/enter", body)
    if response.status != 200 and not indexed:
        assert (response.status, answer["error"]) == (502, "relay_failed"), answer
        assert "Send the same body again" in answer["message"]
        node.lag_of = lambda _method, _params: 0
        response, answer = await door.post("/api/relay/enter", body)
    assert (response.status, answer.get("receipt")) == (200, "confirmed"), answer
    assert answer["txHash"] == transaction


@pytest.mark.thorough
async def test_a_landed_bet_fails_simulation_and_the_next_view_lags(
    service: StockService, node: InconsistentNode, door: Door, market: int, has_index: bool
) -> None:
    """The simulation meets the newest view, the question for the authorization one that lags."""
    bet, body, transaction = await landed(service, market, "brought by a stranger", indexed=has_index)
    node.lag_of = behind(service.chain.contracts.token.call("authorizationState", bet.signer, bet.nonce))
    await outcome_is_reported(node, door, body, transaction, indexed=has_index)


@pytest.mark.thorough
async def test_the_relayer_refuses_a_landed_bet_and_the_apis_view_lags(
    service: StockService, node: InconsistentNode, door: Door, market: int, has_index: bool
) -> None:
    """Everything the API reads lags, so that the bet is queued; the relayer sees that it is spent."""
    _, body, transaction = await landed(service, market, "seen by the relayer alone", indexed=has_index)
    node.lag_of = lambda _method, _params: BEHIND
    await outcome_is_reported(node, door, body, transaction, indexed=has_index)


@pytest.fixture
async def relayers_node(service: StockService, door: Door) -> AsyncIterator[InconsistentNode]:
    """Put the relayer behind a node and wait until its lanes work."""

    async def restarted(**env: str) -> None:
        await asyncio.to_thread(service.stop, "relayer")
        await asyncio.to_thread(service.start, "relayer", **env)

    async with InconsistentNode(service.chain.url, 8) as node:
        node.head_seconds = 0.0
        await restarted(VPM_STOCK_RPC_URLS=node.url)

        async def sound() -> bool:
            checks = (await door.get("/api/health"))[1]["checks"]
            return all(each["ok"] for each in checks if each["name"] == "relayer")

        await until(sound, lambda: f"a sound relayer\n{service.log('relayer')}", pause=0.2)
        yield node
        await restarted()


@pytest.mark.parametrize("has_index", ["without the index"], indirect=True)
@pytest.mark.parametrize("is_placed", [True, False])
async def test_the_relayer_refuses_a_landed_bet_for_another_reason(
    service: StockService,
    node: InconsistentNode,
    relayers_node: InconsistentNode,
    door: Door,
    market: int,
    has_index: bool,
    is_placed: bool,
) -> None:
    """New bets are paused after it landed, and the API's view has seen neither. is_placed: whether the relayer's nodes
    agree on a block in which the bet is refused."""
    chain = service.chain
    _, body, transaction = await landed(service, market, "before the pause", indexed=has_index)
    chain.pause()
    node.lag_of = lambda _method, _params: BEHIND
    if not is_placed:
        relayers_node.lag_of = lambda method, _: BEHIND if method == "eth_blockNumber" else 0
    try:
        await outcome_is_reported(node, door, body, transaction, indexed=has_index)
    finally:
        chain.resume()


@pytest.mark.parametrize("newest", ["all but the authorization", "the balance alone"])
async def test_the_balance_is_low_because_the_bet_has_landed(
    service: StockService, node: InconsistentNode, door: Door, market: int, has_index: bool, newest: str
) -> None:
    """The balance is that of the newest view, the authorization's state that of one that lags."""
    bet, body, transaction = await landed(service, market, "bet all she had", usd=5, indexed=has_index)
    token = service.chain.contracts.token
    if newest == "the balance alone":
        held = behind(token.call("balanceOf", bet.signer))
        node.lag_of = lambda method, params: BEHIND - held(method, params)
    else:
        node.lag_of = behind(token.call("authorizationState", bet.signer, bet.nonce))
    await outcome_is_reported(node, door, body, transaction, indexed=has_index)


@pytest.mark.thorough
async def test_a_used_authorization_stays_used_if_the_next_view_lags(
    service: StockService, node: InconsistentNode, door: Door, market: int, has_index: bool
) -> None:
    """The first question meets the newest view, every later one a view that lags."""
    bet, body, transaction = await landed(service, market, "first seen and then not", indexed=has_index)
    state = service.chain.contracts.token.call("authorizationState", bet.signer, bet.nonce).data[:4].hex()
    met = 0

    def lag_of(method: str, params: list[Any]) -> int:
        nonlocal met
        if method == "eth_call" and params[0].get("data", params[0].get("input", ""))[2:10] == state:
            met += 1
        return 0 if met <= 1 else BEHIND

    node.lag_of = lag_of
    await outcome_is_reported(node, door, body, transaction, indexed=has_index)


async def test_a_bet_that_every_view_refuses_is_refused(
    service: StockService, node: InconsistentNode, door: Door, market: int
) -> None:
    """Nothing of it is on the chain: unknown is not the answer to everything."""
    chain, deployer = service.chain, wallets.DEPLOYER.address
    freeze, unfreeze = (functools.partial(chain.contracts.token.call, each) for each in ("freeze", "unfreeze"))
    node.views = (0, 1, BEHIND)
    for asked in itertools.count():
        if asked % A_MINUTE == 0:  # how often the views disagree is a matter of chance, and a bettor has so many calls
            wallet = bettor(service, "frozen")
            chain.send(freeze(wallet.address), deployer)
            body = chain.signed(wallet, chain.bet(wallet, market))
        response, answer = await door.post("/api/relay/enter", body)
        if (response.status, answer.get("error")) == (422, "simulation_failed"):
            break
        assert (response.status, answer["error"]) == (502, "relay_failed"), answer
        chain.mine(BEHIND)  # until the views that lag have seen the freeze, too
    chain.send(unfreeze(wallet.address), deployer)
