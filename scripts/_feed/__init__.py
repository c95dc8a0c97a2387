"""`vpm feed`: reports the cost of moving a pool's price (`report`), and records readings with any key (`record`)."""
