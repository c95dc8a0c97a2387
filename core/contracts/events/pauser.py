"""The pauser's events, on both chains: who may pause, and who paused or resumed."""

from __future__ import annotations

import msgspec

from core.contracts.abi import abi
from core.contracts.events.layout import by_topic, layout

PAUSER = b"g"
"""Entity: the guardians of a chain's pauser and their actions."""


class GuardianSet(msgspec.Struct, frozen=True, gc=False):
    account: bytes
    allowed: bool


class PausedBy(msgspec.Struct, frozen=True, gc=False):
    account: bytes


class ResumedBy(msgspec.Struct, frozen=True, gc=False):
    account: bytes


def _by_pauser(_t: bytes, _d: bytes) -> bytes:
    return PAUSER


_PAUSER = abi("Pauser").events

PAUSER_EVENTS = by_topic(
    layout(_PAUSER["GuardianSet"], GuardianSet, _by_pauser),
    layout(_PAUSER["PausedBy"], PausedBy, _by_pauser),
    layout(_PAUSER["ResumedBy"], ResumedBy, _by_pauser),
)
