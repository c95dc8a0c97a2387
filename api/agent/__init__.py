"""The agent API: real-money markets on Base, paid by x402, at /api/agent/v1, and by tools at /api/agent/mcp."""
