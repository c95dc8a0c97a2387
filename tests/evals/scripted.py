"""The agent of the tests: a program that does each task by the tools alone, as a model would. It knows the tasks by
name, and nothing of the service.

Standard input: one JSON object, {"task", "prompt", "given", "servers", "wallet"}. Standard output: the answer, in its
last line.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data
from mcp.client import Client
from mcp_types import CallToolResult
from x402 import x402Client
from x402.mechanisms.evm.exact import register_exact_evm_client
from x402.schemas import PaymentRequired


class Agent:
    """A wallet and the tools of one server."""

    def __init__(self, client: Client, private_key: str) -> None:
        self._client = client
        self._account = Account.from_key(private_key)
        self._payer = x402Client()
        register_exact_evm_client(self._payer, self._account)
        self._payer.set_spend_controls({"max_amount_per_payment": "$100"})

    async def look(self, name: str, **arguments: Any) -> Any:
        result = await self._client.call_tool(name, arguments)
        assert not result.is_error, result
        return result.structured_content

    async def bet(self, market: str, side: str, size: int, idem_key: str | None = None) -> str:
        """The receipt's id, or the code of the refusal."""
        body: dict[str, Any] = {
            "marketId": market,
            "side": side,
            "sizeUsd": size,
            "idemKey": idem_key or str(uuid.uuid4()),
            "walletAddress": self._account.address,
        }
        if size > 10:
            quote = (await self.look("get_quote", marketId=market, side=side, sizeUsd=size))["quote"]
            body |= {"quoteId": quote["quoteId"], "minSharesOut": quote["suggestedMinSharesOut"]}
        result = await self._client.call_tool("trade", body)
        if result.is_error and result.structured_content is not None:
            payment = await self._payer.create_payment_payload(
                PaymentRequired.model_validate(result.structured_content)
            )
            meta: Any = {"x402/payment": payment.model_dump(by_alias=True, exclude_none=True)}
            result = await self._client.call_tool("trade", body, meta=meta)
        return _told(result, "receipt", "tradeId")

    async def enter(self, market: str, outcome: int, amount: str) -> str:
        given = {"marketId": market, "outcome": outcome, "amount": amount, "from": self._account.address}
        prepared = await self.look("prepare_bet", **given)
        numbers = ("value", "validAfter", "validBefore")
        message = {name: int(each) if name in numbers else each for name, each in prepared["message"].items()}
        typed = {name: prepared[name] for name in ("domain", "types", "primaryType")} | {"message": message}
        signature = Account.sign_message(encode_typed_data(full_message=typed), self._account.key).signature
        body = {**prepared["request"], "signature": "0x" + bytes(signature).hex()}
        return _told(await self._client.call_tool("place_bet", body), "txHash")


def _told(result: CallToolResult, *path: str) -> str:
    (text,) = (each.text for each in result.content if each.type == "text")
    body = json.loads(text)
    if result.is_error:
        return str(body.get("error"))
    for name in path:
        body = body[name]
    return str(body)


async def done(agent: Agent, task: str, given: dict[str, str]) -> str:
    market = given.get("market", "")
    match task:
        case "fee":
            return str((await agent.look("get_market", marketId=market))["market"]["feeBps"])
        case "rehearse":
            quote = await agent.look("get_quote", marketId=market, side="yes", sizeUsd=5)
            return str(quote["quote"]["estimatedShares"])
        case "holdings":
            return str((await agent.look("get_positions", wallet=given["wallet"]))["summary"]["totalStakedUsd"])
        case "small":
            return await agent.bet(market, "yes", 2)
        case "locked":
            return await agent.bet(market, "no", 25)
        case "cheapest":
            outcomes = (await agent.look("get_market", marketId=market))["market"]["outcomes"]
            return await agent.bet(market, min(outcomes, key=lambda each: each["impliedPct"])["key"], 1)
        case "unfunded":
            return await agent.bet(market, "yes", 50)
        case "once":
            return await agent.bet(market, "yes", 3, given["idem_key"])
        case "stock":
            return await agent.enter(market, 0, "5000000")
        case "largest":
            limits = (await agent.look("get_market", marketId=market))["market"]["limits"]
            return await agent.enter(market, 1, limits["maxEntry"])
    raise SystemExit(f"no task {task}")


async def main() -> None:
    told = json.load(sys.stdin)
    async with Client(told["servers"][told["server"]]) as client:
        print(await done(Agent(client, told["wallet"]["privateKey"]), told["task"], told["given"]))


if __name__ == "__main__":
    asyncio.run(main())
