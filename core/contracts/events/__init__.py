"""Contract events as typed values, with decoders generated from the ABIs.

The indexer decodes tens of thousands of events a second, too many for eth-abi. A log consists of two byte strings: its
joined topics, and its data. A decoder slices both at known offsets. tests/unit/test_events.py compares every decoder
with eth-abi.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from core.contracts.events.agent import AGENT_LISTER_EVENTS, AGENT_RESOLVER_EVENTS, WALLET_EVENTS
from core.contracts.events.layout import Layout, UndecodableLog
from core.contracts.events.shared import FEED_EVENTS, PAUSER_EVENTS, TOKEN_EVENTS
from core.contracts.events.stock import LISTER_EVENTS, RESOLVER_EVENTS, SETTLER_EVENTS

__all__ = ["Layout", "Role", "UndecodableLog", "layouts_of"]


class Role(StrEnum):
    """The role of a contract, which determines how its events are decoded. One topic may have a different layout in
    each role, as the topic of FeesSwept does."""

    SETTLER = "settler"
    RESOLVER = "resolver"
    LISTER = "lister"
    WALLET = "wallet"
    AGENT_RESOLVER = "agent_resolver"
    AGENT_LISTER = "agent_lister"
    PAUSER = "pauser"
    FEED = "feed"
    TOKEN = "token"  # noqa: S105 - a currency, not a secret


_LAYOUTS: Final[Mapping[Role, Mapping[bytes, Layout]]] = {
    Role.SETTLER: SETTLER_EVENTS,
    Role.RESOLVER: RESOLVER_EVENTS,
    Role.LISTER: LISTER_EVENTS,
    Role.WALLET: WALLET_EVENTS,
    Role.AGENT_RESOLVER: AGENT_RESOLVER_EVENTS,
    Role.AGENT_LISTER: AGENT_LISTER_EVENTS,
    Role.PAUSER: PAUSER_EVENTS,
    Role.FEED: FEED_EVENTS,
    Role.TOKEN: TOKEN_EVENTS,
}


def layouts_of(role: Role) -> Mapping[bytes, Layout]:
    """Return a role's event layouts by their first topic."""
    return _LAYOUTS[role]
