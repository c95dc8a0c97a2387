"""`vpm drill`: breaks one thing at a time in a local service of its own and says what held.

`fleet` runs that service (two chains behind proxies, PostgreSQL, several of each daemon), `load` bets on it all the
while and remembers what it was promised, `checks` holds the promises to the chain, and the drills themselves are in
`processes`, `storage`, `nodes` and `contracts`, listed by `catalogue`.
"""
