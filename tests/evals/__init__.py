"""Ten tasks for an agent that has the MCP servers and a wallet: what each is told, and the state it must end in."""
