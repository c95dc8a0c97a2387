"""Which of the standing series' slots are empty, and what fills them. Pure."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from keeper.agent.series import (
    QUICK_SECONDS,
    Design,
    Feed,
    Series,
    Slot,
    deadline,
    round_slot,
    standing,
    up_or_down,
)
from keeper.sources.sample import Round

STANDING = (Series.TOUCH, Series.DAY, Series.FAR, Series.LADDER)
FRESH_SECONDS = 900
"""A market is built around the feed's value only if that is at most this old."""


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A slot that is left empty, or is filled, and why."""

    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """A market to list, and what it fills."""

    slot: Slot
    design: Design


def decide_series(
    feeds: Sequence[Feed], latest: Sequence[Round | None], filled: Set[Slot], now: int
) -> tuple[list[Wanted], list[Unlisted]]:
    """Threshold and ladder markets. `latest` is each feed's newest round."""
    wanted: list[Wanted] = []
    unlisted: list[Unlisted] = []
    for position, (feed, last) in enumerate(zip(feeds, latest, strict=True)):
        for series in STANDING:
            slot = Slot(series, feed.symbol, deadline(series, now))
            target = f"{feed.symbol} {series}"
            if slot in filled:
                unlisted.append(Unlisted(target, "it is listed"))
            elif feed.metric != "market_cap":
                unlisted.append(Unlisted(target, f"its series are about market caps, not {feed.metric}"))
            elif last is None or last.answer <= 0:
                unlisted.append(Unlisted(target, "its feed has no value yet"))
            elif now - last.updated_at > FRESH_SECONDS:
                unlisted.append(Unlisted(target, f"its feed's last value is {now - last.updated_at} s old"))
            else:
                wanted.append(Wanted(slot, standing(series, feed, last.answer, now, position)))
    return wanted, unlisted


def decide_rounds(
    feeds: Sequence[Feed], filled: Set[Slot], now: int, seconds: int, *, quick: bool
) -> tuple[list[Wanted], list[Unlisted]]:
    """The next up/down round of every token and, if `quick`, short ones of the first."""
    wanted: list[Wanted] = []
    unlisted: list[Unlisted] = []
    plans = [(feed, Series.HOUR, seconds) for feed in feeds]
    if quick and feeds and seconds != QUICK_SECONDS:
        plans.append((feeds[0], Series.QUICK, QUICK_SECONDS))
    for feed, series, length in plans:
        slot, start = round_slot(feed.symbol, now, length, series)
        if slot in filled:
            unlisted.append(Unlisted(f"{feed.symbol} {series}", "the next round is listed"))
        else:
            wanted.append(Wanted(slot, up_or_down(feed, slot, start)))
    return wanted, unlisted
