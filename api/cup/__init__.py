"""The tournament surface: REST under /api/cup/v1 and an MCP server at /api/cup/mcp, both over the same service.

`surface` declares the REST operations, `requests` validates their input, `service` does the work, and `bodies` builds
the answers. `mcp` offers the operations as tools. `guide` is the onboarding text.
"""
