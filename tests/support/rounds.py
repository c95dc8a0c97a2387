"""Rounds in memory, and the resolver's `preview` computed with the mirror."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from core.contracts.statuses import PreviewStatus
from core.feeds.rounds import FeedHead, ReadRound, Round, Spec, in_effect_at, judge

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Preview:
    """A market as the resolver previews it: the status, and the two readings, which are None where there is none or the
    market is not ready."""

    status: PreviewStatus
    strike: Round | None = None
    final: Round | None = None


def memory(read: Callable[[int], Round | None]) -> ReadRound:
    async def wait(asked_id: int) -> Round | None:
        return read(asked_id)

    return wait


def run(search: Coroutine[Any, Any, T]) -> T:
    try:
        search.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits for something")


async def preview(spec: Spec, head: FeedHead, read: ReadRound, *, paused: bool, now: int) -> Preview:
    """Return the contract's `preview` of a registered market at the block time `now`. `paused` says whether a pause was
    recorded at the time of a reading."""
    if now <= spec.final_time:
        return Preview(PreviewStatus.NOT_READY)
    strike = (await in_effect_at(head, spec.strike_time, read)).round
    final = (await in_effect_at(head, spec.final_time, read)).round
    if strike is None or final is None:
        return Preview(PreviewStatus.BAD_PROOF, strike, final)
    return Preview(judge(spec, strike, final, paused=paused), strike, final)
