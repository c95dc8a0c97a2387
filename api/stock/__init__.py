"""The stock surface: markets on oracle prices, the gasless relay, proof, health and cron.

`facts` are what was read (rows of the index, rounds of the feeds); `index` and `oracle` keep them fresh in memory;
`market_view` and `proof` turn them into bodies; `reads`, `relay`, `health` and `cron` answer requests. `mcp` offers the
same operations as tools, at /api/stock/mcp.
"""
