"""Checks a response of POST /api/relay/enter: the signed bet must be on the chain, in the position that the response
names."""

from __future__ import annotations

from typing import Any

from eth_abi.exceptions import DecodingError

from core.chain import checksum
from core.chain.wire import data_bytes
from core.contracts.events import stock as ev
from core.hexadecimal import hex_of
from scripts._verify.chain import PinnedChain, is_hash
from scripts._verify.claims import Findings, NotCheckable
from scripts._verify.stock import check_market, check_view, read_market


async def check_relay(chain: PinnedChain, body: dict[str, Any], findings: Findings) -> None:
    if not is_hash(body.get("txHash")):
        raise NotCheckable("The relay's response has no transaction hash.")
    signed = await _signed(chain, body, findings)
    receipt = await chain.receipt(body["txHash"])
    shown = f"eth_getTransactionReceipt({body['txHash']})"
    stated = body.get("receipt")
    if receipt is None:
        if stated == "pending":
            findings.unknown("the bet was sent", "it is not mined at this block; check again later", shown)
        else:
            findings.check(f"receipt is {stated}", False, shown, "there is no such transaction at this block")
        return
    mined = "confirmed" if receipt.succeeded else "reverted"
    if stated == "pending":
        findings.check("receipt was pending", True, shown, f"it is now {mined}")
    else:
        findings.same("receipt", stated, mined, shown)
    if body.get("blockNumber") is not None:
        findings.integer("blockNumber", body["blockNumber"], receipt.block_number, shown)
    entered: list[ev.Entered] = [one.event for one in await chain.logs_in(body["txHash"], "VestedMarkets", "Entered")]
    if signed is not None:
        bet = (signed["marketId"], signed["outcome"], signed["amount"], checksum(signed["from"]))
        entered = [e for e in entered if (e.market_id, e.outcome, e.offered, checksum(e.owner)) == bet]
    if not receipt.succeeded:
        findings.same("a reverted bet took no money", entered, [], shown)
        return
    if not findings.check("the transaction entered the signed bet", bool(entered), f"VestedMarkets.Entered in {shown}"):
        return
    ids = [str(e.position_id) for e in entered]
    if body.get("positionId") is not None:
        findings.check(
            "positionId", body["positionId"] in ids, f"VestedMarkets.Entered in {shown}", str(body["positionId"])
        )
    event = next((e for e in entered if str(e.position_id) == body.get("positionId")), entered[0])
    market = await read_market(chain, event.market_id)
    await check_market(chain, market, findings)
    await check_view(chain, market, event.position_id, findings)


async def _signed(chain: PinnedChain, body: dict[str, Any], findings: Findings) -> dict[str, Any] | None:
    """Return the bet in the escape kit's call data. Check that its nonce equals the nonce in the response."""
    kit = body.get("escapeKit")
    if not isinstance(kit, dict):
        return None
    settler = chain.contract("VestedMarkets")
    function = settler.abi.function("enterWithAuthorization")
    findings.address("the escape kit calls the settler", kit.get("to"), settler.address, "the deployment file")
    findings.integer("the escape kit's chainId", kit.get("chainId"), chain.deployment.chain_id, "eth_chainId")
    try:
        data = data_bytes(str(kit.get("data")))
        if data[:4] != function.selector:
            raise ValueError
        bet = function.decode_inputs(data)
    except (ValueError, DecodingError):
        findings.check("the escape kit holds a bet", False, f"its data does not decode as {function.signature}")
        return None
    named = (bet["marketId"], bet["outcome"], bet["amount"])
    nonce = await chain.read(settler.call("entryNonce", *named, bet["salt"]))
    call = f"VestedMarkets.entryNonce({', '.join(map(str, named))}, salt)"
    findings.same("nonce binds market, side and amount", body.get("nonce"), hex_of(nonce), call)
    return bet
