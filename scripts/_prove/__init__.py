"""`vpm prove`: proves the contracts' theorems for all values, and shows that each theorem fails when its guards are
removed."""
