"""The stock surface: markets on oracle prices, the gasless relay, proof, health and cron.

`facts` defines what is read: rows of the index and rounds of the feeds. `index` and `sources` keep these facts current
in memory. `market_view` and `proof` turn them into bodies. `reads`, `relay`, `health` and `cron` answer requests.
"""
