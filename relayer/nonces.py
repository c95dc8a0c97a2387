"""Comparing a lane's nonces with the chain's: pure, so that every kind of drift is a line in a table of tests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reconciled:
    """A lane's nonces after its rows were compared with the chain. next_nonce: the first free one. holes: unused nonces
    below it that belong to nobody and block all later ones. reopened: nonces of ended intents that the chain says are
    unused, after a reorg deeper than finality."""

    next_nonce: int
    holes: tuple[int, ...] = ()
    reopened: tuple[int, ...] = ()


def reconcile(*, latest: int, owned: int, live: Collection[int], ended: Collection[int]) -> Reconciled:
    """The nonces as they must be.

    latest: the chain's count of mined transactions. owned: the nonce after the highest that any intent of the lane ever
    had. live: nonces of intents signed, sent or mined but not final. ended: nonces at or above `latest` of intents that
    ended.

    - The chain is ahead: somebody else used our key; what is mined cannot be undone, so go on after it.
    - A nonce between the chain's count and ours that no intent has: a no-op must fill it, or nothing after it is mined.
    """
    first_free = max(latest, owned)
    in_flight, done = set(live), set(ended)
    gone = [nonce for nonce in range(latest, first_free) if nonce not in in_flight]
    return Reconciled(
        next_nonce=first_free,
        holes=tuple(nonce for nonce in gone if nonce not in done),
        reopened=tuple(nonce for nonce in gone if nonce in done),
    )


def drift(before: int | None, after: Reconciled) -> str | None:
    """A sentence for the log when something had to be repaired."""
    parts = []
    if before is not None and before != after.next_nonce:
        parts.append(f"the next nonce was {before} and is {after.next_nonce}")
    if after.holes:
        parts.append(f"{len(after.holes)} unused from {after.holes[0]}")
    if after.reopened:
        parts.append(f"{len(after.reopened)} undone from {after.reopened[0]}")
    return "; ".join(parts) or None
