"""The stock markets' MCP server: the REST API as tools.

It is a server of its own, not more tools of the agents': other units (integers as text, not dollars), another way to
pay (a signed bet, not x402), another chain. A model that sees one of them cannot take the numbers of the other.
"""

from __future__ import annotations

from typing import Final

from api.http.mcp_door import Described, McpDoor
from api.http.operation import Operation, usual_error
from api.http.rest_tools import RestTools
from api.stock.tools import INSTRUCTIONS, TOOLS
from core.config import Settings

NAME: Final = "service-stock"
PATH: Final = "/api/stock/mcp"


def stock_mcp(settings: Settings, operations: tuple[Operation, ...]) -> McpDoor:
    """`region_header` goes along: where bets are not offered, they are not by tools either."""
    tools = RestTools(TOOLS, operations, usual_error, kept=(settings.region_header,))
    origin = settings.public_url
    server = Described(NAME, "Stock markets", INSTRUCTIONS, origin, PATH, f"{origin}/agents.txt")
    return McpDoor(server, tools.described, tools.call)
