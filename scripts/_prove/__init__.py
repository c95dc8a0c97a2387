"""`vpm prove`: proves the contracts' theorems for all values, and shows that each fails without its guards."""
