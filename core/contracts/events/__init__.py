"""Our contracts' events: for each its typed value, and a decoder that is made from the contract's ABI.

The log path handles tens of thousands of events a second, so no ABI machinery runs per log: a log arrives as its
topics joined into one byte string and its data, and a decoder cuts both at known offsets. tests/unit/test_events.py
holds every decoder to eth-abi.

`layouts_of(role)` gives what a contract in that role emits, by topic. The same topic may mean different things in
different roles (both FeesSwept), so a log is always looked up by its emitter's role first.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from core.contracts.events.agent import AGENT_LISTER_EVENTS, AGENT_RESOLVER_EVENTS, WALLET_EVENTS
from core.contracts.events.feed import FEED_EVENTS
from core.contracts.events.layout import Layout, UndecodableLog
from core.contracts.events.pauser import PAUSER_EVENTS
from core.contracts.events.stock import LISTER_EVENTS, RESOLVER_EVENTS, SETTLER_EVENTS
from core.contracts.events.token import TOKEN_EVENTS

__all__ = ["Layout", "Role", "UndecodableLog", "layouts_of"]


class Role(StrEnum):
    """The roles that contracts have for us, by which their events are decoded."""

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
    """Return the events a contract in this role emits, by their first topic."""
    return _LAYOUTS[role]
