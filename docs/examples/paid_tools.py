"""Stake 1 USDC with MCP tools, and pay through x402's MCP transport in `_meta`. Needs VPM_URL and VPM_KEY (a wallet
that holds USDC)."""

import asyncio
import os
import uuid

from eth_account import Account
from mcp.client import Client
from x402 import x402Client
from x402.mechanisms.evm.exact import register_exact_evm_client
from x402.schemas import PaymentRequired


async def main() -> None:
    wallet, payer = Account.from_key(os.environ["VPM_KEY"]), x402Client()
    register_exact_evm_client(payer, wallet)
    async with Client(os.environ["VPM_URL"] + "/api/agent/mcp") as agent:
        listed = await agent.call_tool("list_markets", {"type": "market_cap", "limit": 1})
        market = listed.structured_content["markets"][0]
        bet = {
            "marketId": market["id"],
            "side": "yes",
            "sizeUsd": 1,
            "idemKey": str(uuid.uuid4()),  # the same key again replays the receipt, it never pays twice
            "walletAddress": wallet.address,
        }
        asked = await agent.call_tool("trade", bet)  # nothing moves: the result says what to pay
        payment = await payer.create_payment_payload(PaymentRequired.model_validate(asked.structured_content))
        meta = {"x402/payment": payment.model_dump(by_alias=True, exclude_none=True)}
        placed = await agent.call_tool("trade", bet, meta=meta)
        held = placed.structured_content["receipt"]["position"]
        print(
            market["question"], held["shares"], "shares, paid by", placed.meta["x402/payment-response"]["transaction"]
        )


asyncio.run(main())
