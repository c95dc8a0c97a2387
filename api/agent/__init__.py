"""The agent API: real-money markets on Base, paid by x402, at /api/agent/v1."""
