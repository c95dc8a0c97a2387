"""The tournament surface: REST under /api/cup/v1 and the MCP server at /api/cup/mcp, one path for money.

`requests` are what can be asked, `service` answers requests that were read, `bodies` words the answers, `rest` and
`mcp` are the two doors to `service`, `guide` is the onboarding text, `surface` puts it together.
"""
