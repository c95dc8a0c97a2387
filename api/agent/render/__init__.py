"""Facts as the bodies of the agent surface, by what they are about. Pure: money is exact JSON numbers."""

from __future__ import annotations

from api.agent.render.markets import (
    NETWORK,
    ended,
    ladder,
    market_facts,
    market_ref,
    odds,
    stats,
    times,
    token_snapshot,
)
from api.agent.render.numbers import average_cents, usd
from api.agent.render.positions import position, summary
from api.agent.render.quotes import dearest_cents, least_shares, quote
from api.agent.render.research import decided_by, impact, observations, odds_history, rules
from api.agent.render.results import result
from api.agent.render.trades import proof, receipt

__all__ = [
    "NETWORK",
    "average_cents",
    "dearest_cents",
    "decided_by",
    "ended",
    "impact",
    "ladder",
    "least_shares",
    "market_facts",
    "market_ref",
    "observations",
    "odds",
    "odds_history",
    "position",
    "proof",
    "quote",
    "receipt",
    "result",
    "rules",
    "stats",
    "summary",
    "times",
    "token_snapshot",
    "usd",
]
