"""Feeds: rounds and how to find them, pool feeds, Uniswap pools, and the cost of moving a reading."""
