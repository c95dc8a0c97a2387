"""Decides why a stock accepts no bets. While its price is frozen, the result of its markets may already be known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.stock.sessions import Session

GRACE_SECONDS: Final = 3600
"""How long after a sequencer outage feeds may take to update again, as in SequencerCheck."""

PAUSED: Final = "The stock's oracle is paused."
OUTAGE: Final = "The chain's sequencer is down, or came back less than an hour ago."


def silence(updated_at: int, sessions: Sequence[Session], now: int) -> int:
    """Return the seconds since the feed's last round, counting only the current session. A feed publishes nothing while
    the exchange is closed."""
    for session in sessions:
        if session.opens <= now < session.closes:
            return max(0, now - max(updated_at, session.opens))
    return 0


def halt(
    *, paused: bool, sequencer_up: bool, updated_at: int | None, longest: int, sessions: Sequence[Session], now: int
) -> str | None:
    """Return the reason why a stock accepts no bets, or None if it accepts bets. A feed that is silent for longer than
    `longest`, the maximum reading age at a bell, would void the market."""
    if paused:
        return PAUSED
    if not sequencer_up:
        return OUTAGE
    if updated_at is None:
        return "The price feed has no round."
    silent = silence(updated_at, sessions, now)
    if silent > longest:
        return f"The price feed has not been updated for {silent // 60} minutes although the exchange is open."
    return None


def sequencer_is_up(answer: int, started_at: int, now: int) -> bool:
    """Return whether the uptime feed reports that the sequencer is up and has been up for long enough."""
    return answer == 0 and now >= started_at + GRACE_SECONDS
