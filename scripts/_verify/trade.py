"""Checks the agent API's receipts, proofs, positions and results against the settlement wallet's logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eth_abi.exceptions import DecodingError

from core.agent.bet import BOUND_ONLY, ZERO_ADDRESS, Bet, bet_hash, bound_nonce
from core.chain import checksum
from core.chain.wire import data_bytes
from core.contracts.events import agent as ev
from core.contracts.names import from_answer
from core.contracts.statuses import Form
from core.hexadecimal import bytes_of, hex_of
from core.money import decimal_text
from scripts._verify import attestation
from scripts._verify.agent import (
    CENT_DECIMALS,
    AgentMarket,
    average_cents,
    check_book,
    check_listing,
    check_result,
    check_stake,
    check_words,
    find_stake,
    key_of,
    read_market,
    status_of,
    unix_seconds,
)
from scripts._verify.chain import DecodedLog, PinnedChain, is_hash
from scripts._verify.claims import Findings, NotCheckable, objects

STAKED = "SettlementWallet.Staked"


async def check_receipt(chain: PinnedChain, body: dict[str, Any], findings: Findings) -> None:
    receipt = body["receipt"] if isinstance(body.get("receipt"), dict) else body
    if receipt.get("simulated"):
        raise NotCheckable("A simulated receipt has no trade on the chain.")
    market, stake = await _open(chain, receipt.get("tradeId"), receipt.get("txHash"), findings)
    event: ev.Staked = stake.event
    _check_trade(market, stake, receipt, findings)
    of_receipt = findings.about("receipt", STAKED)
    of_receipt.fields(receipt, {"intentHash": _trade(event)})
    position = receipt.get("position")
    if isinstance(position, dict):
        of_receipt.money("shares", position.get("shares"), event.shares, f"{STAKED}, priced again")
        stated = position.get("avgPriceCents")
        shown = "(amount - fee) / shares"
        of_receipt.money("avgPriceCents", stated, average_cents(event), shown, decimals=CENT_DECIMALS)
    if "builderCode" in receipt:
        given = receipt["builderCode"] or ZERO_ADDRESS
        of_receipt.address("builderCode", given, checksum(event.builder), f"{STAKED}.builder")
    await _check_time(chain, stake, receipt.get("recordedAt"), findings)
    await _check_bet(chain, stake, findings)
    attestation.check_receipt(chain, body.get("extensions"), _trade(event), stake, findings)
    await _check_all(chain, market, [stake], findings)


async def check_proof(chain: PinnedChain, body: dict[str, Any], findings: Findings) -> None:
    settled, position = body.get("settlement") or {}, body.get("position") or {}
    market, stake = await _open(chain, body.get("tradeId"), settled.get("txHash"), findings)
    event: ev.Staked = stake.event
    listed = body.get("market") or {}
    check_words(market, listed, findings)
    flat = {"marketId": listed.get("id"), "side": position.get("side"), "sizeUsd": position.get("sizeUsd")}
    _check_trade(market, stake, {**flat, "txHash": settled.get("txHash")}, findings)
    proof = findings.about("proof", STAKED)
    if "walletAddress" in position:
        proof.address("wallet", position["walletAddress"], checksum(event.wallet))
    proof.fields(position, {"shares": event.shares, "feeUsd": event.fee}, Findings.money)
    proof.fields(settled, {"stakeId": event.stake_id}, Findings.integer)
    proof.fields(settled, {"blockNumber": stake.block}, Findings.integer, stake.tx)
    if "contract" in settled:
        address = chain.contract("SettlementWallet").address
        proof.address("contract", settled["contract"], address, "the deployment file")
    await _check_time(chain, stake, settled.get("settledAt"), findings)
    await _check_bet(chain, stake, findings)
    await _check_all(chain, market, [stake], findings)


async def check_positions(chain: PinnedChain, body: dict[str, Any], findings: Findings) -> None:
    for stated in objects(body["positions"]):
        if not is_hash(stated.get("tradeId")):
            findings.unknown(f"a position in {stated.get('marketId')}", "the document has no trade id", "tradeId")
            continue
        market, stake = await _open(chain, stated["tradeId"], None, findings, may_be_refund=True)
        event = stake.event
        position = findings.about(f"position {stated['tradeId'][:10]}", STAKED)
        position.money("stakedUsd", stated.get("stakedUsd"), event.amount)
        if isinstance(event, ev.Staked):
            position.money("shares", stated.get("shares"), event.shares)
            position.fields(stated, {"side": market.sides[event.outcome]})
            status, owed = status_of(market, event), market.owed(event)[0]
            if stated.get("status") != "open" and "status" in stated:
                position.same("status", stated["status"], status, f"SettlementWallet.market({hex_of(market.key)})")
                position.money("pnlUsd", stated.get("pnlUsd"), owed - event.amount, "payout less stake")
                position.fields(stated, {"payoutUsd": owed}, Findings.money, "the fold of the book, rule by rule")
        check_words(market, stated, findings)
        await _check_all(chain, market, [stake], findings)


async def check_trade(chain: PinnedChain, trade_id: str, findings: Findings) -> None:
    market, stake = await _open(chain, trade_id, trade_id, findings, may_be_refund=True)
    await _check_bet(chain, stake, findings)
    await _check_all(chain, market, [stake], findings)


async def check_market(chain: PinnedChain, market_id: Any, findings: Findings) -> None:
    market = await _market(chain, market_id)
    await _check_all(chain, market, market.stakes.values(), findings)


async def check_result_document(chain: PinnedChain, body: dict[str, Any], findings: Findings) -> None:
    stated = body["result"] if isinstance(body.get("result"), dict) else body
    market = await _market(chain, stated.get("marketId"))
    await _check_all(chain, market, market.stakes.values(), findings)
    findings = findings.about("result", f"SettlementWallet.market({hex_of(market.key)})")
    status = "pending" if market.closed is None else "resolved"
    if stated.get("status") == "pending" and status == "resolved":
        findings.check("status was pending", True, detail="it is now resolved")
        return
    findings.same("status", stated.get("status"), status)
    if market.closed is None:
        return
    winner, book = market.winner, market.book
    won = "void" if winner is None else market.sides[winner]
    findings.fields(stated, {"resolvedOutcome": won, "txHash": market.closed.tx})
    shares = 0 if winner is None else book.shares[winner]
    findings.money("poolUsd", stated.get("poolUsd"), book.net_pool, f"{findings.source}.netPool")
    findings.money("winningShares", stated.get("winningShares"), shares, f"{findings.source} winner's shares")
    check_words(market, {name: value for name, value in stated.items() if name != "source"}, findings)
    if "payoutPerShareUsd" not in stated:
        return
    if winner is None or book.refunds(winner) or not book.pays_alike(winner):
        rule = "stakes are refunded in full, or the pool holds less than a dollar a share, so payouts per share differ"
        findings.same("payoutPerShareUsd", stated["payoutPerShareUsd"], None, rule)
    else:
        each = book.net_pool * 10**6 // shares  # down, like the document's
        findings.money("payoutPerShareUsd", stated["payoutPerShareUsd"], each, "netPool / winning shares, rounded down")


# ---------------------------------------------------------------- parts


async def _market(chain: PinnedChain, market_id: Any) -> AgentMarket:
    return await read_market(chain, bytes_of(market_id) if is_hash(market_id) else key_of(market_id))


async def _open(
    chain: PinnedChain, trade_id: Any, tx: Any, findings: Findings, *, may_be_refund: bool = False
) -> tuple[AgentMarket, DecodedLog]:
    if not is_hash(trade_id):
        raise NotCheckable("The document has no trade id (0x and 64 hexadecimal digits).")
    stake = await find_stake(chain, trade_id, tx)
    if not isinstance(stake.event, ev.Staked) and not may_be_refund:
        raise NotCheckable("The payment was refunded, not staked; there is no trade receipt for it.")
    findings.check(f"trade {trade_id} is on chain", True, f"{STAKED} in {stake.tx}", f"block {stake.block}")
    return await read_market(chain, stake.event.market_id), stake


def _check_trade(market: AgentMarket, stake: DecodedLog, stated: dict[str, Any], findings: Findings) -> None:
    event = stake.event
    trade = findings.about("trade", STAKED)
    if "marketId" in stated:
        key = hex_of(key_of(stated["marketId"]))
        findings.same("keccak256 of marketId is the market's key", key, hex_of(market.key), STAKED)
    trade.fields(stated, {"side": market.sides[event.outcome], "txHash": stake.tx})
    trade.money("sizeUsd", stated.get("sizeUsd"), event.amount)


async def _check_time(chain: PinnedChain, stake: DecodedLog, stated: Any, findings: Findings) -> None:
    if stated is not None:
        findings.same(
            "recorded at", unix_seconds(stated), await chain.time_of(stake.block), f"time of block {stake.block}"
        )


async def _check_bet(chain: PinnedChain, stake: DecodedLog, findings: Findings) -> None:
    """Check that the trade id is the hash of the bet, and that the payer's signature is bound to the bet. Bet and
    signature are read from the call data, so they are unknown if another contract made the call."""
    what = "the trade id is the hash of the bet"
    transaction = await chain.client.transaction(stake.tx)
    wallet = chain.contract("SettlementWallet")
    names = {wallet.abi.function(name).selector: name for name in ("settle", "credit")}
    data = b"" if transaction is None else data_bytes(transaction.input)
    name = names.get(data[:4])
    if transaction is None or name is None or (transaction.to or "").lower() != wallet.address.lower():
        findings.unknown(what, "the wallet was called by another contract", stake.tx)
        return
    try:
        given = wallet.abi.function(name).decode_inputs(data)
    except DecodingError:
        findings.check(what, False, f"the input of {stake.tx} does not decode")
        return
    bet = from_answer(Bet, given["b"])
    hashed = bet_hash(bet, chain.deployment.chain_id, wallet.address)
    findings.same(what, _trade(stake.event), hex_of(hashed), f"SettlementWallet.betHash of the input of {stake.tx}")
    _check_binding(given["a"], hashed, stake, findings)
    if isinstance(stake.event, ev.Staked):
        got, least = decimal_text(stake.event.shares), decimal_text(bet.min_shares)
        enough, shown = stake.event.shares >= bet.min_shares, f"minShares in the input of {stake.tx}"
        findings.check("the stake got at least the minimum shares", enough, shown, f"{got}; the minimum was {least}")


def _check_binding(authorization: Any, hashed: bytes, stake: DecodedLog, findings: Findings) -> None:
    """Check that the payer signed this bet. If not, an account with the role RELAYER chose the bet."""
    nonce, shown = bytes(authorization["nonce"]), f"the authorization in the input of {stake.tx}"
    findings.same("the authorization is the one in the log", hex_of(nonce), hex_of(stake.event.nonce), shown)
    is_bound = "the payer's signature is bound to this bet"
    if authorization["form"] == Form.RECEIVE:
        findings.check(is_bound, nonce == bound_nonce(hashed), shown, "receive form: its nonce is the bet's hash")
    elif authorization["validAfter"] == BOUND_ONLY and isinstance(stake.event, ev.Staked):
        findings.check(is_bound, nonce == hashed, shown, "its nonce is the bet's hash")
    else:
        detail = "its nonce is not bound to a bet, so the holder of RELAYER chose the bet"
        findings.check("the payer signed an ordinary payment", True, shown, detail)


async def _check_all(chain: PinnedChain, market: AgentMarket, stakes: Iterable[DecodedLog], findings: Findings) -> None:
    await check_listing(chain, market, findings)
    await check_book(chain, market, findings)
    await check_result(chain, market, findings)
    for stake in stakes:
        await check_stake(chain, market, stake, findings)


def _trade(event: ev.Staked | ev.RefundBooked) -> str:
    return hex_of(event.bet_hash)
