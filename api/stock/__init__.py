"""The stock surface: markets on oracle prices, the gasless relay, proof, health and cron.

`facts` defines what is read: index rows and feed rounds. `index` and `sources` keep these facts current in memory.
`market_view` and `proof` turn them into bodies. `reads`, `relay`, `health` and `cron` handle requests.
"""
