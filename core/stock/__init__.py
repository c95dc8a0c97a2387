"""Stock markets: exact arithmetic that mirrors VestedMarkets, and the fold of its logs."""
