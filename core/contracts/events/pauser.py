"""The pauser's events, the same on both chains: who may pause, and who paused or resumed."""

from __future__ import annotations

import msgspec

from core.contracts.events.layout import by_topic, layout

PAUSER = b"g"
"""Entity: the guardians of a chain's pauser, and what they did."""


class GuardianSet(msgspec.Struct, frozen=True, gc=False):
    account: bytes
    allowed: bool


class PausedBy(msgspec.Struct, frozen=True, gc=False):
    account: bytes


class ResumedBy(msgspec.Struct, frozen=True, gc=False):
    account: bytes


def _by_pauser(_t: bytes, _d: bytes) -> bytes:
    return PAUSER


PAUSER_EVENTS = by_topic(
    layout("GuardianSet(address indexed account, bool allowed)", GuardianSet, _by_pauser),
    layout("PausedBy(address indexed account)", PausedBy, _by_pauser),
    layout("ResumedBy(address indexed account)", ResumedBy, _by_pauser),
)
