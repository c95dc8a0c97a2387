"""`vpm verify` on the agent side: receipts, challenges, proofs, positions and results, true and changed."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from eth_utils.crypto import keccak

from scripts._stack import wallets
from scripts._verify.__main__ import main
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet
from tests.support.genesis import Genesis, RunningChain
from tests.support.tampering import changed

DEV = wallets.DEV
CAP = 100_000_000 * 10**8
BOUNDS = [50_000_000 * 10**8, 100_000_000 * 10**8]


@dataclass
class Traded:
    """Markets of every kind, settled and paid, and what the service said of the trades."""

    service: AgentService
    challenge: dict[str, Any]
    early: dict[str, Any]
    late: dict[str, Any]
    proof: dict[str, Any]
    positions: dict[str, Any]
    results: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def traded(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Traded]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    folder: Path = tmp_path_factory.mktemp("verify-agent")
    chain.observe(80_000_000 * 10**8)
    chain.list("early", early=True)
    chain.list("ladder", kind=1, bounds=BOUNDS)
    chain.list("updown", kind=2)
    chain.list("stale")
    with agent_service(chain, database_url, local_genesis.deployments, folder) as running:
        running.start("indexer", "relayer", "api")
        yield asyncio.run(_trade(running))


async def _trade(service: AgentService) -> Traded:
    chain = service.chain
    async with aiohttp.ClientSession() as session:
        buyer = Buyer(session, service)
        await buyer.shows("stale")
        _, challenge = await buyer.post(bet("early", DEV[0]))
        bought = [
            await buyer.buy(bet(market, who, side, size), who)
            for market, who, side, size in (
                ("early", DEV[0], "yes", 5),
                ("early", DEV[1], "no", 7.25),
                ("early", DEV[2], "yes", 3.000001),
                ("ladder", DEV[0], "b1", 4),
                ("ladder", DEV[1], "b0", 4),
                ("updown", DEV[0], "up", 2),
                ("updown", DEV[1], "down", 2),
                ("stale", DEV[0], "yes", 2),
            )
        ]
        assert all(response.status == 200 for response, _ in bought), [body for _, body in bought]
        start = chain.now
        chain.warp_to(start + 1000)
        chain.observe(CAP + 1)
        chain.warp_to(start + 1002)
        _settle(chain, "early", "resolve(bytes32)")
        chain.warp_to(start + 3500)
        chain.observe(70_000_000 * 10**8)
        chain.warp_to(start + 86_000)
        chain.observe(90_000_000 * 10**8)
        chain.warp_to(start + 87_200)
        for market in ("ladder", "updown"):
            _settle(chain, market, "resolve(bytes32)")
        chain.warp_to(start + 3 * 86_400)
        _settle(chain, "stale", "resolve(bytes32)")
        results = {}
        for market in ("early", "ladder", "updown", "stale"):
            results[market] = await _until(buyer, "/result", "result", "resolved", marketId=market)
        positions = await _positions(buyer)
        late = bought[1][1]
        _, proof = await buyer.get(f"/proof/{bought[0][1]['receipt']['tradeId']}")
    return Traded(service, challenge, bought[0][1], late, proof, positions, results)


def _settle(chain: AgentChain, market: str, call: str) -> None:
    """By anybody; then everybody is paid by anybody."""
    wallet, key = chain.contracts.settlement, keccak(text=market)
    chain.send(wallet.call(call, key), DEV[7].address)
    stakes = chain.read(wallet.call("stakesOf", key, 0, 100))
    chain.send(wallet.call("pay", key, stakes), DEV[7].address)


async def _until(buyer: Buyer, path: str, part: str, status: str, **query: object) -> dict[str, Any]:
    for _ in range(300):
        _, body = await buyer.get(path, **query)
        if body.get("status") == status or (body.get(part) or {}).get("status") == status:
            return dict(body)
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} {query} never became {status}: {body}")


async def _positions(buyer: Buyer) -> dict[str, Any]:
    for _ in range(300):
        _, body = await buyer.get("/positions", wallet=DEV[0].address)
        if body["summary"]["openCount"] == 0:
            return dict(body)
        await asyncio.sleep(0.05)
    raise AssertionError(body)


Verify = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def verify(traded: Traded, local_genesis: Genesis, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    def run(subject: Any, *options: str) -> tuple[int, dict[str, Any]]:
        word = str(subject)
        if isinstance(subject, dict):
            word = str(tmp_path / "document.json")
            Path(word).write_text(json.dumps(subject))
        where = ["--rpc", traded.service.chain.url, "--deployments", str(local_genesis.deployments)]
        signer = ["--attester", wallets.ATTESTATION.address]
        capsys.readouterr()
        code = main([word, *where, *signer, "--json", *options])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else {"error": said.err}

    return run


def held(report: dict[str, Any], words: str) -> list[str]:
    return [one["verdict"] for one in report["claims"] if words in one["claim"]]


def failing(report: dict[str, Any]) -> list[str]:
    return [f"{one['claim']}: {one['detail']}" for one in report["claims"] if one["verdict"] != "holds"]


@pytest.mark.proves("shared.operation.decision.verify_receipt")
def test_receipts_hold_down_to_the_signature_and_the_payout(traded: Traded, verify: Verify) -> None:
    for document in (traded.early, traded.late):
        code, report = verify(document)
        assert code == 0, failing(report)
        assert held(report, "signature is by") == ["holds"]
        assert held(report, "hash of the signed intent") == ["holds"]
        assert held(report, "reached the target") == ["holds"]
    _, report = verify(traded.early)
    assert held(report, "the payment reached the wallet") == ["holds"]


def test_challenges_proofs_and_positions_hold(traded: Traded, verify: Verify) -> None:
    for document in (traded.challenge, traded.proof, traded.positions):
        code, report = verify(document)
        assert code == 0, failing(report)


@pytest.mark.parametrize("market", ["early", "ladder", "updown", "stale"])
def test_results_of_every_kind_hold(market: str, traded: Traded, verify: Verify) -> None:
    code, report = verify(traded.results[market])
    assert code == 0, failing(report)
    code, report = verify(market)
    assert code == 0, failing(report)


def test_a_trade_id_alone_is_enough(traded: Traded, verify: Verify) -> None:
    code, report = verify(traded.early["receipt"]["tradeId"])
    assert code == 0, failing(report)


def test_the_deployment_file_names_the_key_that_has_to_have_signed(
    traded: Traded, local_genesis: Genesis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "receipt.json"
    document.write_text(json.dumps(traded.early))
    named = tmp_path / "named"
    shutil.copytree(local_genesis.deployments, named)
    where = ["--rpc", traded.service.chain.url, "--deployments", str(named)]
    assert main([str(document), *where]) == 0
    facts = json.loads((named / "base.json").read_text())
    assert facts["operatorWallets"]["attestation"] == wallets.ATTESTATION.address

    facts["operatorWallets"]["attestation"] = DEV[5].address
    (named / "base.json").write_text(json.dumps(facts))
    assert main([str(document), *where]) == 1

    # Where nobody names it the signer is told, and left open.
    del facts["operatorWallets"]["attestation"]
    (named / "base.json").write_text(json.dumps(facts))
    capsys.readouterr()
    assert main([str(document), *where]) == 3
    said = capsys.readouterr().out
    assert "cannot be told" in said
    assert wallets.ATTESTATION.address in said
    assert "0 do not hold" in said


RECEIPT = (
    "receipt.sizeUsd",
    "receipt.side",
    "receipt.marketId",
    "receipt.position.shares",
    "receipt.position.avgPriceCents",
    "receipt.intentHash",
    "receipt.txHash",
    "receipt.recordedAt",
    "extensions.offer-receipt.info.receipt.payload.transaction",
    "extensions.offer-receipt.info.receipt.payload.payer",
    "extensions.offer-receipt.info.receipt.payload.resourceUrl",
    "extensions.offer-receipt.info.receipt.payload.issuedAt",
    "extensions.offer-receipt.info.receipt.signature",
)


@pytest.mark.parametrize("path", RECEIPT)
def test_a_changed_receipt_does_not_hold(path: str, traded: Traded, verify: Verify) -> None:
    code, report = verify(changed(traded.early, path))
    assert code == 1, report


def test_a_builder_that_never_was_does_not_hold(traded: Traded, verify: Verify) -> None:
    code, _ = verify(changed(traded.early, "receipt.builderCode", DEV[3].address))
    assert code == 1


PROOF = (
    "position.walletAddress",
    "position.side",
    "position.shares",
    "position.sizeUsd",
    "position.feeUsd",
    "settlement.txHash",
    "settlement.stakeId",
    "settlement.blockNumber",
    "settlement.contract",
    "market.id",
)


@pytest.mark.parametrize("path", PROOF)
def test_a_changed_proof_does_not_hold(path: str, traded: Traded, verify: Verify) -> None:
    code, report = verify(changed(traded.proof, path))
    assert code == 1, report


@pytest.mark.parametrize("field", ["stakedUsd", "shares", "pnlUsd", "side", "status"])
def test_a_changed_position_does_not_hold(field: str, traded: Traded, verify: Verify) -> None:
    code, report = verify(changed(traded.positions, f"positions.0.{field}"))
    assert code == 1, report


@pytest.mark.parametrize("field", ["resolvedOutcome", "poolUsd", "winningShares", "payoutPerShareUsd", "txHash"])
def test_a_changed_result_does_not_hold(field: str, traded: Traded, verify: Verify) -> None:
    body = traded.results["early"]
    path = f"result.{field}" if isinstance(body.get("result"), dict) else field
    code, report = verify(changed(body, path))
    assert code == 1, report


@pytest.mark.parametrize("field", ["payTo", "asset", "maxAmountRequired", "resource"])
def test_a_changed_challenge_does_not_hold(field: str, traded: Traded, verify: Verify) -> None:
    code, report = verify(changed(traded.challenge, f"accepts.0.{field}"))
    assert code == 1, report


def test_a_receipt_signed_by_another_key_does_not_hold(
    traded: Traded, local_genesis: Genesis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "receipt.json"
    document.write_text(json.dumps(traded.early))
    where = ["--rpc", traded.service.chain.url, "--deployments", str(local_genesis.deployments)]
    assert main([str(document), *where, "--attester", DEV[5].address]) == 1
    assert "DOES NOT HOLD  the receipt's signature is by" in capsys.readouterr().out


def test_a_trade_that_never_was_cannot_be_asked(verify: Verify) -> None:
    code, report = verify("0x" + "ab" * 32)
    assert code == 2
    assert "carries the intent hash" in report["error"]
