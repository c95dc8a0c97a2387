"""When a stock takes no bets for now: its price stands still, so the answer of its markets may be known already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.stock.sessions import Session

GRACE_SECONDS: Final = 3600
"""How long after an outage of the sequencer feeds may take to write again, as SequencerCheck has it."""

PAUSED: Final = "The stock's oracle is paused."
OUTAGE: Final = "The chain's sequencer is down, or came back less than an hour ago."


def silence(updated_at: int, sessions: Sequence[Session], now: int) -> int:
    """Return for how many seconds the exchange has been open without a round of the feed; 0 while it is closed.

    A feed writes when the price moves by its deviation, and rests while the exchange does.
    """
    for session in sessions:
        if session.opens <= now < session.closes:
            return max(0, now - max(updated_at, session.opens))
    return 0


def halt(
    *, paused: bool, sequencer_up: bool, updated_at: int | None, longest: int, sessions: Sequence[Session], now: int
) -> str | None:
    """Return why no bet is taken on a stock, or None.

    `longest` is how old the reading at a bell may be: a feed that stayed silent for longer would void the market.
    """
    if paused:
        return PAUSED
    if not sequencer_up:
        return OUTAGE
    if updated_at is None:
        return "The price feed has no round."
    silent = silence(updated_at, sessions, now)
    if silent > longest:
        return f"The price feed has stood still for {silent // 60} minutes while the exchange is open."
    return None


def sequencer_is_up(answer: int, started_at: int, now: int) -> bool:
    """Return whether a sequencer's uptime feed says that it is up, and has been for long enough."""
    return answer == 0 and now >= started_at + GRACE_SECONDS
