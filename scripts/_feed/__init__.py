"""`vpm feed`: what an operator needs to know of a pool before markets stand on it, and a way to record its readings.

`report` shows what it costs to move a live pool, and `record` records readings with any key.
"""
