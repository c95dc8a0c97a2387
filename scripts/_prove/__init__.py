"""`vpm prove`: the contracts' theorems, each proved for every value at once, and the guards they fail without."""
