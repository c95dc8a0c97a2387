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
"""A market is listed on a feed only if its value is at most this old. One that nobody posts to would give every stake
back."""


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
        doubt = _doubt(last, now)
        for series in STANDING:
            slot = Slot(series, feed.symbol, deadline(series, now))
            target = f"{feed.symbol} {series}"
            if slot in filled:
                unlisted.append(Unlisted(target, "it is listed"))
            elif feed.metric != "market_cap":
                unlisted.append(Unlisted(target, f"its series are about market caps, not {feed.metric}"))
            elif last is None or doubt is not None:
                unlisted.append(Unlisted(target, str(doubt)))
            else:
                wanted.append(Wanted(slot, standing(series, feed, last.answer, now, position)))
    return wanted, unlisted


def decide_rounds(
    feeds: Sequence[Feed], latest: Sequence[Round | None], filled: Set[Slot], now: int, seconds: int, *, quick: bool
) -> tuple[list[Wanted], list[Unlisted]]:
    """The next up/down round of every token and, if `quick`, short ones of the first. `latest` is each feed's newest
    round."""
    wanted: list[Wanted] = []
    unlisted: list[Unlisted] = []
    plans = [(feed, last, Series.HOUR, seconds) for feed, last in zip(feeds, latest, strict=True)]
    if quick and feeds and seconds != QUICK_SECONDS:
        plans.append((feeds[0], latest[0], Series.QUICK, QUICK_SECONDS))
    for feed, last, series, length in plans:
        slot, start = round_slot(feed.symbol, now, length, series)
        doubt = _doubt(last, now)
        if slot in filled:
            unlisted.append(Unlisted(f"{feed.symbol} {series}", "the next round is listed"))
        elif doubt is not None:
            unlisted.append(Unlisted(f"{feed.symbol} {series}", doubt))
        else:
            wanted.append(Wanted(slot, up_or_down(feed, slot, start)))
    return wanted, unlisted


def _doubt(last: Round | None, now: int) -> str | None:
    """Why no market is listed on a feed with this newest round, or None."""
    if last is None or last.answer <= 0:
        return "its feed has no value yet"
    age = now - last.updated_at
    return f"its feed's last value is {age} s old" if age > FRESH_SECONDS else None
