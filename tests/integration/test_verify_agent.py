"""`vpm verify` on the agent side: receipts, challenges, proofs, positions and results, true ones and altered ones."""

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

from core.agent.bet import Bet, bet_hash, idem_hash
from core.contracts.statuses import Form, MarketKind
from core.money import USD
from scripts._stack import wallets
from scripts._verify.__main__ import main
from tests.support.agent_chain import CAP, HOUR, AgentChain
from tests.support.agent_payments import spending
from tests.support.agent_service import AgentService, agent_service
from tests.support.altered_documents import changed
from tests.support.buyer import Buyer, bet, sign
from tests.support.external_feeds import SILENT_KEY, list_unposted, push, with_unposted_feed
from tests.support.genesis import Genesis, RunningChain
from tests.waiting import until

DEV = wallets.DEV
MILLION = 1_000_000 * 10**8
BOUNDS = [50 * MILLION, 100 * MILLION]
MARKETS = ("unposted", "ladder", "updown", "stale")


@dataclass
class Traded:
    """Markets of every kind, settled and paid, and the service's documents about the trades."""

    service: AgentService
    deployments: Path
    challenge: dict[str, Any]
    unposted: dict[str, Any]
    late: dict[str, Any]
    proof: dict[str, Any]
    positions: dict[str, Any]
    results: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def traded(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Traded]:
    folder: Path = tmp_path_factory.mktemp("verify-agent")
    on = AgentChain.on(base_chain.url, base_chain.deployment)
    chain, deployments = with_unposted_feed(on, local_genesis.deployments, folder)
    closes_at = chain.now + HOUR
    list_unposted(chain, "unposted")
    chain.list("ladder", kind=MarketKind.RANGE, bounds=BOUNDS, closes_at=closes_at)
    chain.list("updown", kind=MarketKind.DIRECTION, closes_at=closes_at, start_at=closes_at + HOUR // 4)
    chain.list("stale", feed=SILENT_KEY, closes_at=closes_at)
    with agent_service(chain, database_url, deployments, folder) as running:
        running.start("indexer", "relayer", "api")
        yield asyncio.run(_trade(running, deployments))


async def _trade(service: AgentService, deployments: Path) -> Traded:
    chain = service.chain
    async with aiohttp.ClientSession() as session:
        buyer = Buyer(session, service)
        await buyer.shows("stale")
        _, challenge = await buyer.post(bet("unposted", DEV[0]))
        bought = [
            await buyer.buy(bet(market, who, side, size), who, form=form)
            for market, who, side, size, form in (
                ("unposted", DEV[0], "yes", 5, Form.TRANSFER),
                ("unposted", DEV[1], "no", 7.25, Form.RECEIVE),
                ("unposted", DEV[2], "yes", 3.000001, Form.TRANSFER),
                ("ladder", DEV[0], "50m-to-100m", 4, Form.RECEIVE),
                ("ladder", DEV[1], "under-50m", 4, Form.TRANSFER),
                ("updown", DEV[0], "up", 2, Form.TRANSFER),
                ("updown", DEV[1], "down", 2, Form.RECEIVE),
                ("stale", DEV[0], "yes", 2, Form.TRANSFER),
            )
        ]
        assert all(response.status == 200 for response, _ in bought), [body for _, body in bought]
        _sent_past_us(chain, challenge, "unposted", DEV[3], 4)
        _play(chain)
        results = {}
        for market in MARKETS:
            results[market] = await _becomes(buyer, "/result", "result", "resolved", marketId=market)
        positions = await _positions(buyer)
        late = bought[1][1]
        _, proof = await buyer.get(f"/proof/{bought[0][1]['receipt']['tradeId']}")
    return Traded(service, deployments, challenge, bought[0][1], late, proof, positions, results)


def _play(chain: AgentChain) -> None:
    """Record every deciding reading, then have a stranger settle and pay everything."""
    updown, ladder = chain.terms("updown"), chain.terms("ladder")
    readings: list[tuple[int, Callable[[], None]]] = [
        (chain.terms("unposted")["endsAt"], lambda: push(chain, CAP + 1)),
        (updown["startAt"], lambda: chain.observe(70 * MILLION)),
        (updown["endsAt"], lambda: chain.observe(90 * MILLION)),
        (ladder["endsAt"], lambda: chain.observe(90 * MILLION)),
    ]
    for moment, say in sorted(readings, key=lambda each: each[0]):
        chain.warp_to(moment - 5)
        say()
    chain.warp_to(max(chain.terms(each)["settlesAfter"] for each in MARKETS) + 1)
    _settle(chain, "unposted")
    _settle(chain, "ladder")
    _settle(chain, "updown")
    _settle(chain, "stale", "voidMarket")


def _settle(chain: AgentChain, market: str, call: str = "resolve") -> None:
    """Settle the market and pay everyone, as a stranger."""
    key, settlement = chain.key(market), chain.contracts.settlement
    chain.send(chain.contracts.resolver.call(call, key), DEV[7].address)
    stakes = chain.read(settlement.call("stakesOf", key, 0, 100))
    chain.send(settlement.call("pay", key, stakes), DEV[7].address)


def _sent_past_us(
    chain: AgentChain,
    challenge: dict[str, Any],
    market: str,
    who: wallets.Wallet,
    usd: int,
    *,
    brought: int | None = None,
) -> str:
    """Submit a payment directly to the token and book it with CREDITOR as a bet on the first side. Return the trade's
    id. brought: the amount that the token moved for that nonce, if it differs from the bet's."""
    offer = {**challenge["accepts"][0], "maxAmountRequired": str(usd * USD)}
    now = chain.now
    promised = sign(offer, who, now=now, nonce=bytes([usd]) * 32)
    sent = promised if brought is None else sign(offer, who, now=now, nonce=bytes([usd]) * 32, value=str(brought))
    chain.send(spending(chain, sent), DEV[7].address)
    made = Bet(chain.key(market), 0, usd * USD, 0, who.address, idem_hash(f"past-us-{usd}"))
    given = promised["payload"]["authorization"]
    authorization = (
        int(Form.TRANSFER),
        int(given["value"]),
        int(given["validAfter"]),
        int(given["validBefore"]),
        bytes.fromhex(given["nonce"][2:]),
        bytes.fromhex(promised["payload"]["signature"][2:]),
    )
    fields = (
        made.market_id,
        made.outcome,
        made.amount,
        made.min_shares,
        made.wallet,
        made.idem_hash,
        made.builder,
        made.ref,
    )
    settlement = chain.contracts.settlement
    chain.send(settlement.call("credit", fields, authorization), wallets.CREDITOR.address)
    return "0x" + bet_hash(made, chain.contracts.chain_id, settlement.address).hex()


async def _becomes(buyer: Buyer, path: str, part: str, status: str, **query: object) -> dict[str, Any]:
    async def read() -> dict[str, Any] | None:
        _, body = await buyer.get(path, **query)
        is_so = body.get("status") == status or (body.get(part) or {}).get("status") == status
        return dict(body) if is_so else None

    return await until(read, f"{status} of {path} {query}")


async def _positions(buyer: Buyer) -> dict[str, Any]:
    async def read() -> dict[str, Any] | None:
        _, body = await buyer.get("/positions", wallet=DEV[0].address)
        return dict(body) if body["summary"]["openCount"] == 0 else None

    return await until(read, "the end of every position")


Verify = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def verify(traded: Traded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    def run(subject: Any, *options: str) -> tuple[int, dict[str, Any]]:
        word = str(subject)
        if isinstance(subject, dict):
            word = str(tmp_path / "document.json")
            Path(word).write_text(json.dumps(subject))
        where = ["--rpc", traded.service.chain.url, "--deployments", str(traded.deployments)]
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


def test_receipts_hold_down_to_the_signature_and_the_payout(traded: Traded, verify: Verify) -> None:
    for document in (traded.unposted, traded.late):
        code, report = verify(document)
        assert code == 0, failing(report)
        assert held(report, "signature is by") == ["holds"]
        assert held(report, "the trade id is the hash of the bet") == ["holds"]
        assert held(report, "a transfer paid for the stake") == ["holds"]
        assert held(report, "stakes and refunds booked for that transfer") == ["holds"]
        assert held(report, "staking ends before anything that decides the market is measured") == ["holds"]
        assert held(report, "settled only after the reading at its end could no longer change") == ["holds"]
    _, report = verify(traded.unposted)
    assert held(report, "the payment reached the wallet") == ["holds"]


def test_challenges_proofs_and_positions_hold(traded: Traded, verify: Verify) -> None:
    for document in (traded.challenge, traded.proof, traded.positions):
        code, report = verify(document)
        assert code == 0, failing(report)


@pytest.mark.parametrize("market", MARKETS)
def test_results_of_every_kind_hold(market: str, traded: Traded, verify: Verify) -> None:
    code, report = verify(traded.results[market])
    assert code == 0, failing(report)
    code, report = verify(traded.service.chain.ids[market])
    assert code == 0, failing(report)
    assert held(report, "the market's id follows from its specification") == ["holds"]
    assert held(report, "the settlement wallet closed the market as the resolver decided") == ["holds"]


def test_how_firmly_a_payment_named_its_bet_is_said(traded: Traded, verify: Verify) -> None:
    _, ordinary = verify(traded.unposted)
    assert held(ordinary, "the payer signed an ordinary payment") == ["holds"]
    _, bound = verify(traded.late)
    assert held(bound, "the payer's signature is bound to this bet") == ["holds"]


def test_a_payment_that_came_by_itself_holds_by_the_transfer_of_before(traded: Traded, verify: Verify) -> None:
    code, report = verify(traded.service.chain.ids["unposted"])
    assert code == 0, failing(report)
    assert len(held(report, "a transfer paid for the stake")) == 4


def test_a_stake_that_the_creditor_made_up_does_not_hold(traded: Traded, verify: Verify) -> None:
    """A thief of its key spends a nonce for one unit, and books five dollars that another payer sent directly."""
    chain = traded.service.chain
    before = chain.ask("evm_snapshot")
    try:
        token, wallet = chain.contracts.token, chain.contracts.settlement.address
        chain.send(token.call("mint", wallet, 5 * USD), DEV[7].address)
        chain.list("thieved", closes_at=chain.now + HOUR)
        trade = _sent_past_us(chain, traded.challenge, "thieved", DEV[4], 5, brought=1)
        code, report = verify(trade)
        assert code == 1
        assert failing(report) == ["a transfer paid for the stake: " + _detail(report)]
        assert "1 units" in _detail(report)
    finally:
        chain.ask("evm_revert", before)


def _detail(report: dict[str, Any]) -> str:
    (detail,) = [one["detail"] for one in report["claims"] if one["claim"] == "a transfer paid for the stake"]
    return str(detail)


def test_a_trade_id_alone_is_enough(traded: Traded, verify: Verify) -> None:
    code, report = verify(traded.unposted["receipt"]["tradeId"])
    assert code == 0, failing(report)


def test_the_deployment_file_names_the_key_that_has_to_have_signed(
    traded: Traded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "receipt.json"
    document.write_text(json.dumps(traded.unposted))
    named = tmp_path / "named"
    shutil.copytree(traded.deployments, named)
    where = ["--rpc", traded.service.chain.url, "--deployments", str(named)]
    assert main([str(document), *where]) == 0
    facts = json.loads((named / "base.json").read_text())
    assert facts["operatorWallets"]["attestation"] == wallets.ATTESTATION.address

    facts["operatorWallets"]["attestation"] = DEV[5].address
    (named / "base.json").write_text(json.dumps(facts))
    assert main([str(document), *where]) == 1

    # If it is not listed, the signer is named and left undecided.
    del facts["operatorWallets"]["attestation"]
    (named / "base.json").write_text(json.dumps(facts))
    capsys.readouterr()
    assert main([str(document), *where]) == 3
    said = capsys.readouterr().out
    assert "cannot be checked" in said
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
@pytest.mark.thorough
def test_a_changed_receipt_does_not_hold(path: str, traded: Traded, verify: Verify) -> None:
    code, report = verify(changed(traded.unposted, path))
    assert code == 1, report


def test_a_builder_that_never_was_does_not_hold(traded: Traded, verify: Verify) -> None:
    code, _ = verify(changed(traded.unposted, "receipt.builderCode", DEV[3].address))
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
    "market.question",
    "market.shortTitle",
    "market.summary",
    "market.deadlineAt",
    "market.endsAt",
    "market.settlesAfter",
)


@pytest.mark.parametrize("path", PROOF)
@pytest.mark.thorough
def test_a_changed_proof_does_not_hold(path: str, traded: Traded, verify: Verify) -> None:
    code, report = verify(changed(traded.proof, path))
    assert code == 1, report


@pytest.mark.parametrize(
    "field", ["stakedUsd", "shares", "pnlUsd", "payoutUsd", "side", "status", "question", "endsAt"]
)
@pytest.mark.thorough
def test_a_changed_position_does_not_hold(field: str, traded: Traded, verify: Verify) -> None:
    code, report = verify(changed(traded.positions, f"positions.0.{field}"))
    assert code == 1, report


@pytest.mark.parametrize("field", ["resolvedOutcome", "poolUsd", "winningShares", "payoutPerShareUsd", "txHash"])
def test_a_changed_result_does_not_hold(field: str, traded: Traded, verify: Verify) -> None:
    body = traded.results["unposted"]
    path = f"result.{field}" if isinstance(body.get("result"), dict) else field
    code, report = verify(changed(body, path))
    assert code == 1, report


@pytest.mark.parametrize("field", ["payTo", "asset", "maxAmountRequired", "resource"])
def test_a_changed_challenge_does_not_hold(field: str, traded: Traded, verify: Verify) -> None:
    code, report = verify(changed(traded.challenge, f"accepts.0.{field}"))
    assert code == 1, report


def test_a_receipt_signed_by_another_key_does_not_hold(
    traded: Traded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "receipt.json"
    document.write_text(json.dumps(traded.unposted))
    where = ["--rpc", traded.service.chain.url, "--deployments", str(traded.deployments)]
    assert main([str(document), *where, "--attester", DEV[5].address]) == 1
    assert "DOES NOT HOLD  the receipt's signature is by" in capsys.readouterr().out


def test_a_trade_that_never_was_cannot_be_asked(verify: Verify) -> None:
    code, report = verify("0x" + "ab" * 32)
    assert code == 2
    assert "has the bet hash" in report["error"]


def test_what_the_proof_page_says_of_the_agent_contract_holds_unless_it_was_changed(
    traded: Traded, verify: Verify
) -> None:
    chain = traded.service.chain
    wallet, block = chain.contracts.settlement, int(chain.ask("eth_blockNumber"), 16)
    balance = chain.read(chain.contracts.token.call("balanceOf", wallet.address), block)
    owed = sum(chain.read(wallet.call("liabilities"), block))
    stated = {"chain": "base", "contract": "SettlementWallet", "token": "USDC", "address": wallet.address}
    page = {
        "contracts": [],
        "solvency": [{**stated, "balance": str(balance), "liabilities": str(owed), "block": str(block)}],
    }
    code, report = verify(page)
    assert code == 0, report
    assert len(report["claims"]) == 4
    for field in ("chain", "address", "balance", "liabilities", "block"):
        code, report = verify(changed(page, f"solvency.0.{field}", {"block": str(10**9)}.get(field)))
        assert code == 1, (field, report)
