"""x402's own MCP client, on the official Python MCP client before 2.0, which it needs: it lists, is refused, and pays.

Standard input, a line each: the server's URL, a private key, then {"tool": ..., "arguments": {...}}. Standard output, a
line for each call: {"isError", "text", "paid", "settled"}. A trade above 10 USD is quoted first.
"""

import asyncio
import json
import sys

from eth_account import Account
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from x402 import x402Client
from x402.mcp.client import x402MCPSession
from x402.mechanisms.evm.exact import register_exact_evm_client


async def main() -> None:
    url, key, *calls = sys.stdin.read().splitlines()
    payer = x402Client()
    register_exact_evm_client(payer, Account.from_key(key))
    payer.set_spend_controls({"max_amount_per_payment": "$100"})
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
        wallet = x402MCPSession(session, payer)
        await wallet.initialize()
        assert (await wallet.list_tools()).tools
        for line in calls:
            asked = json.loads(line)
            given = asked["arguments"]
            if given["sizeUsd"] > 10:  # at a price of now: that of a minute ago has expired
                priced = await wallet.call_tool(
                    "get_quote", {name: given[name] for name in ("marketId", "side", "sizeUsd")}
                )
                quote = json.loads(priced.content[0].text)["quote"]
                given |= {"quoteId": quote["quoteId"], "minSharesOut": quote["suggestedMinSharesOut"]}
            result = await wallet.call_tool(asked["tool"], given)
            settled = result.payment_response
            print(
                json.dumps(
                    {
                        "isError": result.is_error,
                        "text": result.content[0].text,
                        "paid": result.payment_made,
                        "settled": None if settled is None else settled.model_dump(by_alias=True),
                    }
                )
            )


asyncio.run(main())
