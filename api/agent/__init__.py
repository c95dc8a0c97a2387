"""The agent API: real-money markets on Base, paid through x402. REST is at /api/agent/v1, MCP at /api/agent/mcp."""
