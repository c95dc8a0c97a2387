"""`vpm prove`: proves the contracts' theorems for all values, and that each fails without its guards."""
