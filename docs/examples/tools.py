"""The cup through MCP tools, with the official MCP client: list a market and get a quote only. Needs VPM_URL."""

import asyncio
import os

from mcp.client import Client


async def main() -> None:
    async with Client(os.environ["VPM_URL"] + "/api/cup/mcp") as cup:
        print(", ".join(tool.name for tool in (await cup.list_tools()).tools))
        found = await cup.call_tool("list_markets", {"limit": 1})
        market = found.structured_content["markets"][0]
        side = market["outcomes"][0]["key"]
        quote = await cup.call_tool("get_quote", {"slug": market["slug"], "side": side, "sizePaper": 25})
        print(market["question"], quote.structured_content["shares"], "shares for 25")


asyncio.run(main())
