"""`vpm feed`: what an operator needs to know of a pool before markets stand on it.

`report` says what it costs to move a live pool, `table` writes the same for pools of round sizes into the guide.
"""
