"""The stock markets as arithmetic: the exact mirror of VestedMarkets, and the fold that replays its logs."""
