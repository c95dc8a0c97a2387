"""`vpm feed`: what an operator needs to know of a pool before markets stand on it, and a way to record its readings.

`report` says what it costs to move a live pool, `table` writes the same for pools of round sizes into the guide, and
`record` records readings with anybody's key.
"""
