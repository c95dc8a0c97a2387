"""`vpm feed`: reports the cost of moving a pool's price, and records readings with any key."""
