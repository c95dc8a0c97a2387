"""Rounds from memory: the resolver's `preview` made of the mirror's parts, and what drives these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from core.contracts.statuses import PreviewStatus
from core.feeds.rounds import FeedHead, Round, RoundReads, Spec, in_effect_at, judge

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Preview:
    """A market as the resolver previews it: the status and the two readings, None where there is none and while not
    ready."""

    status: PreviewStatus
    strike: Round | None = None
    final: Round | None = None


def run(reads: RoundReads[T], read: Callable[[int], Round | None]) -> T:
    """Drives a computation from memory, for example `tape.get`."""
    try:
        asked_id = next(reads)
        while True:
            asked_id = reads.send(read(asked_id))
    except StopIteration as done:
        result: T = done.value
        return result


def preview(spec: Spec, head: FeedHead, *, paused: bool, now: int) -> RoundReads[Preview]:
    """The contract's `preview` of a registered market at the block time `now`.

    `paused` says whether a pause was witnessed over a reading.
    """
    if now <= spec.final_time:
        return Preview(PreviewStatus.NOT_READY)
    strike = (yield from in_effect_at(head, spec.strike_time)).round
    final = (yield from in_effect_at(head, spec.final_time)).round
    if strike is None or final is None:
        return Preview(PreviewStatus.BAD_PROOF, strike, final)
    return Preview(judge(spec, strike, final, paused=paused), strike, final)
