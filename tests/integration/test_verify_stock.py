"""`vpm verify` on the stock side: the service's documents verify, and any change to them does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scripts._stack import wallets
from scripts._verify.__main__ import main
from tests.support.altered_documents import changed
from tests.support.genesis import Genesis, RunningChain
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService, stock_service

DEV = wallets.DEV


@dataclass
class Settled:
    """A settled and paid market, and the service's documents about it."""

    service: StockService
    market: int
    relay: dict[str, Any]
    detail: dict[str, Any]
    open_detail: dict[str, Any]
    owner: dict[str, Any]
    proof: dict[str, Any]


@pytest.fixture(scope="module")
def service(
    local_genesis: Genesis, stock_chain: RunningChain, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StockService]:
    chain = StockChain.on(stock_chain.url, stock_chain.deployment)
    folder = tmp_path_factory.mktemp("verify-stock")
    with stock_service(chain, database_url, local_genesis.deployments, folder) as service:
        service.start("indexer", "relayer", "api")
        yield service


@pytest.fixture(scope="module")
def settled(service: StockService) -> Settled:
    return asyncio.run(_settled(service))


async def _settled(service: StockService) -> Settled:
    chain = service.chain
    chain.push(FLAT_PRICE)
    market = chain.open_market(strike_in=600, lasts=3600)
    async with aiohttp.ClientSession() as session:
        door = Door(session, service.url)
        response, relay = await door.post(
            "/api/relay/enter", chain.signed(DEV[1], chain.bet(DEV[1], market, outcome=0, amount=20 * USDG))
        )
        assert response.status == 200, relay
        chain.enter(DEV[2], market, 1, 30 * USDG)
        chain.enter(DEV[3], market, 0, 100 * USDG)
        chain.mine()
        open_detail = await _at_head(door, chain, market)
        spec = chain.read(chain.contracts.resolver.call("spec", market))
        chain.warp_to(spec["strikeTime"] + 5)
        chain.push(FLAT_PRICE + 1)
        chain.warp_to(spec["finalTime"] - 5)
        chain.push(FLAT_PRICE + 7)
        chain.warp_to(spec["finalTime"] + 5)
        chain.push(FLAT_PRICE - 9)
        chain.send(chain.contracts.resolver.call("resolve", market), DEV[7].address)
        chain.send(chain.contracts.settler.call("deliver", chain.positions(market)), DEV[7].address)
        detail = await _at_head(door, chain, market)
        assert detail["resolution"]["outcome"] == "UP"
        owner = await door.until(
            f"/api/positions?owner={DEV[1].address}", lambda body: body["positions"] and body["positions"][0]["paidOut"]
        )
        proof = await door.until("/api/proof", lambda body: body["settled"] and body["usdg"]["paidOut"] != "0")
    return Settled(service, market, relay, detail, open_detail, owner, proof)


async def _at_head(door: Door, chain: StockChain, market: int) -> dict[str, Any]:
    block = chain.block
    body = await door.until(f"/api/markets/{market}", lambda body: int(body["head"]["blockNumber"]) >= block)
    return dict(body)


Verify = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def verify(settled: Settled, local_genesis: Genesis, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    def run(subject: Any, *options: str) -> tuple[int, dict[str, Any]]:
        """Return the exit code and the report about a document or an id."""
        word = str(subject)
        if isinstance(subject, dict):
            word = str(tmp_path / "document.json")
            Path(word).write_text(json.dumps(subject))
        where = ["--rpc", settled.service.chain.url, "--deployments", str(local_genesis.deployments)]
        capsys.readouterr()
        code = main([word, *where, "--json", *options])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else {"error": said.err}

    return run


def held(report: dict[str, Any], words: str) -> list[str]:
    return [one["verdict"] for one in report["claims"] if words in one["claim"]]


def failing(report: dict[str, Any]) -> list[str]:
    return [f"{one['claim']}: {one['detail']}" for one in report["claims"] if one["verdict"] != "holds"]


# ---------------------------------------------------------------- true documents


def test_a_settled_market_holds_in_every_claim(settled: Settled, verify: Verify) -> None:
    code, report = verify(settled.detail)
    assert code == 0, failing(report)
    assert held(report, "round is the one in effect") == ["holds", "holds"]
    assert held(report, "units reached") == ["holds"] * 3  # both winners and the winning leg of the seed
    assert all(one["shownBy"] for one in report["claims"])


def test_a_document_of_an_open_market_is_checked_at_its_own_block(settled: Settled, verify: Verify) -> None:
    code, report = verify(settled.open_detail)
    assert code == 0, failing(report)
    assert held(report, "UP book acc") == ["holds"]


def test_a_relay_answer_a_position_and_the_proof_page_hold(settled: Settled, verify: Verify) -> None:
    for document in (settled.relay, settled.owner, settled.owner["positions"][0], settled.proof):
        code, report = verify(document)
        assert code == 0, failing(report)


def test_ids_alone_are_enough(settled: Settled, verify: Verify) -> None:
    for subject in (settled.market, settled.owner["positions"][0]["id"]):
        code, report = verify(subject)
        assert code == 0, failing(report)
        assert held(report, "outcome") == ["holds"]


def test_a_path_of_the_service_is_fetched(settled: Settled, verify: Verify) -> None:
    code, report = verify(f"/api/markets/{settled.market}", "--service", settled.service.url)
    assert code == 0, failing(report)
    code, report = verify(f"{settled.service.url}/api/proof")
    assert code == 0, failing(report)


# ---------------------------------------------------------------- changed documents


DETAIL = (
    "market.winner",
    "market.strikeTime",
    "market.finalTime",
    "market.feed",
    "market.seedPerLeg",
    "market.maxFinalAge",
    "market.ticker",
    "resolution.outcome",
    "resolution.strikeRound",
    "resolution.finalRound",
    "resolution.tx",
    "books.0.principal",
    "books.1.acc",
    "positions.2.owner",
    "positions.2.enteredBy",
    "positions.2.opener",
    "positions.2.offered",
    "positions.2.accepted",
    "positions.2.refused",
    "positions.2.accrued",
    "positions.2.payout",
    "positions.2.classicPayout",
    "positions.2.settlement.gross",
    "positions.2.settlement.fee",
    "positions.2.paidOut",
    "positions.2.payoutTx",
    "positions.2.entryTx",
    "positions.2.enteredAt",
    "positions.2.vintage",
    "positions.0.seed",
)


@pytest.mark.parametrize("path", DETAIL)
def test_a_changed_market_does_not_hold(path: str, settled: Settled, verify: Verify) -> None:
    code, report = verify(changed(settled.detail, path))
    assert code == 1, report
    assert len(failing(report)) >= 1


RELAY = {
    "positionId": None,
    "nonce": None,
    "blockNumber": None,
    "txHash": None,
    "receipt": "reverted",
    "escapeKit.to": None,
    "escapeKit.chainId": None,
    "escapeKit.data": "0x1234",
}


@pytest.mark.parametrize("path", RELAY)
def test_a_changed_relay_answer_does_not_hold(path: str, settled: Settled, verify: Verify) -> None:
    code, report = verify(changed(settled.relay, path, RELAY[path]))
    assert code == 1, report


def test_a_relay_answer_for_another_side_does_not_hold(settled: Settled, verify: Verify) -> None:
    data = settled.relay["escapeKit"]["data"]
    outcome = 10 + 64 * 3 - 1  # the last digit of the third argument
    other = data[:outcome] + ("1" if data[outcome] == "0" else "0") + data[outcome + 1 :]
    code, report = verify(changed(settled.relay, "escapeKit.data", other))
    assert code == 1
    assert held(report, "nonce binds") == ["does not hold"]
    assert held(report, "entered the signed bet") == ["does not hold"]


PROOF = {
    "settled.0.outcome": "DOWN",
    "settled.0.resolveTx": None,
    "settled.0.positions": None,
    "settled.0.totalPaid": str(10**15),
    "settled.0.strike.answer": None,
    "settled.0.final.roundId": None,
    "usdg.paidOut": str(10**15),
    "usdg.staked": str(10**15),
    "usdg.feesTaken": str(10**15),
    "contracts.0.address": None,
    "contracts.0.deployTx": "0x" + "12" * 32,
    "feeds.0.address": None,
    "safe.threshold": None,
    "safe.owners": None,
    "solvency.0.balance": None,
    "solvency.0.liabilities": None,
    "solvency.0.block": str(10**9),
}


@pytest.mark.parametrize("path", PROOF)
@pytest.mark.thorough
def test_a_changed_proof_page_does_not_hold(path: str, settled: Settled, verify: Verify) -> None:
    code, report = verify(changed(settled.proof, path, PROOF[path]))
    assert code == 1, report


OWNER = ("positions.0.payout", "positions.0.accrued", "positions.0.id", "positions.0.side", "positions.0.owner")


@pytest.mark.parametrize("path", OWNER)
def test_a_changed_position_does_not_hold(path: str, settled: Settled, verify: Verify) -> None:
    code, report = verify(changed(settled.owner, path))
    assert code in (1, 2), report  # a changed id may be of no market at all


# ---------------------------------------------------------------- what cannot be asked


def test_what_cannot_be_asked_is_one_sentence(settled: Settled, verify: Verify) -> None:
    for subject, words in (
        ({"hello": 1}, "is not a known document"),
        (10**6, "was created"),
        ("no/such/file", "is not a file"),
        ("/api/proof", "--service"),
        ("0x" + "1" * 64, "belongs to Base"),
    ):
        code, report = verify(subject)
        assert code == 2
        assert words in report["error"]
        assert "Traceback" not in report["error"]


def test_a_node_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["12", "--rpc", "http://127.0.0.1:9"]) == 2
    assert "the node failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "path",
    ["market", "books", "head", "resolution", "positions", "positions.2", "positions.2.settlement", "market.id"],
)
@pytest.mark.parametrize("value", ["x", 7, [[]], -1, "9" * 79], ids=str)
@pytest.mark.thorough
def test_a_document_of_the_wrong_form_is_reported_without_a_crash(
    path: str, value: object, settled: Settled, verify: Verify
) -> None:
    code, report = verify(changed(settled.detail, path, value))
    assert code in (0, 1, 2), report
    if code == 2:
        assert "Traceback" not in report["error"]


# ---------------------------------------------------------------- last, as they move the chain's clock


@pytest.mark.parametrize("by", ["a pause", "a split"])
def test_a_market_that_was_interrupted_holds_by_what_was_witnessed(settled: Settled, verify: Verify, by: str) -> None:
    chain = settled.service.chain
    chain.push(FLAT_PRICE)
    market = chain.open_market(strike_in=600, lasts=3600)
    spec = chain.read(chain.contracts.resolver.call("spec", market))
    chain.warp_to(spec["finalTime"] - 600)
    chain.push(FLAT_PRICE + 7)
    if by == "a pause":
        chain.pause_oracle(True)
        chain.witness()
        chain.pause_oracle(False)
    else:
        chain.set_multiplier(4 * 10**18)
    chain.witness()
    chain.warp_to(spec["finalTime"] + 5)
    chain.send(chain.contracts.resolver.call("voidPaused", market), DEV[7].address)
    code, report = verify(market)
    assert code == 0, failing(report)
    assert held(report, "why its rounds decided nothing") == ["holds"]
