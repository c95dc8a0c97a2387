"""What it costs to move a market's reading by moving the pools it is computed from, and what may stand on it therefore.

- `cost`: pushes, depth and the cap, from pools as they stand.
- `live`: a pool of a chain as its exact mirror, with its prices of the past.

Estimates in dollars are binary floats here: nothing of this moves money. What a swap takes and gives is exact.
"""
