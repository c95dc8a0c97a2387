"""The tournament surface: REST under /api/cup/v1 and the MCP server at /api/cup/mcp, one path for money.

`models` are the requests and answers, `desk` answers requests that were read, `bodies` words the answers, `rest` and
`mcp` are the two doors to `desk`, `guide` is the onboarding text, `surface` puts it together.
"""
