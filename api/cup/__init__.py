"""The tournament surface: REST under /api/cup/v1 and an MCP server at /api/cup/mcp, both over the same service."""
