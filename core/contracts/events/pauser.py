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


def _guardian_set(t: bytes, d: bytes) -> GuardianSet:
    return GuardianSet(t[44:64], d[31] != 0)


def _paused_by(t: bytes, _d: bytes) -> PausedBy:
    return PausedBy(t[44:64])


def _resumed_by(t: bytes, _d: bytes) -> ResumedBy:
    return ResumedBy(t[44:64])


PAUSER_EVENTS = by_topic(
    layout("GuardianSet(address indexed account, bool allowed)", _guardian_set, _by_pauser),
    layout("PausedBy(address indexed account)", _paused_by, _by_pauser),
    layout("ResumedBy(address indexed account)", _resumed_by, _by_pauser),
)
