"""What a followed contract is to us, which decides how its logs are read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from core.contracts.events.agent import AGENT_LISTER_EVENTS, AGENT_RESOLVER_EVENTS, WALLET_EVENTS
from core.contracts.events.feed import FEED_EVENTS
from core.contracts.events.layout import Layout
from core.contracts.events.pauser import PAUSER_EVENTS
from core.contracts.events.stock import LISTER_EVENTS, RESOLVER_EVENTS, SETTLER_EVENTS
from core.contracts.events.token import TOKEN_EVENTS


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
    """The events a contract in this role emits, by their first topic."""
    return _LAYOUTS[role]
