"""Jobs for markets of the agent API: observations, standing series, rounds, settling, paying, the canary."""
