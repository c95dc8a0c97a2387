"""Our contracts' events: for each its declaration, its typed value, and a decoder made of both.

The log path handles tens of thousands of events a second, so no ABI machinery runs per log: a log arrives as its
topics joined into one byte string and its data, and a decoder cuts both at known offsets. tests/unit/test_events.py
holds every decoder to eth-abi and every signature to the compiled contracts.

`layouts_of(role)` gives what a contract in that role emits, by topic. The same topic may mean different things in
different roles (both FeesSwept), so a log is always looked up by its emitter's role first.
"""

from core.contracts.events.agent import AGENT_LISTER_EVENTS, AGENT_RESOLVER_EVENTS, WALLET_EVENTS
from core.contracts.events.feed import FEED_EVENTS
from core.contracts.events.layout import Layout, UndecodableLog, topic_of
from core.contracts.events.pauser import PAUSER_EVENTS
from core.contracts.events.roles import Role, layouts_of
from core.contracts.events.stock import LISTER_EVENTS, RESOLVER_EVENTS, SETTLER_EVENTS
from core.contracts.events.token import TOKEN_EVENTS

__all__ = [
    "AGENT_LISTER_EVENTS",
    "AGENT_RESOLVER_EVENTS",
    "FEED_EVENTS",
    "LISTER_EVENTS",
    "PAUSER_EVENTS",
    "RESOLVER_EVENTS",
    "SETTLER_EVENTS",
    "TOKEN_EVENTS",
    "WALLET_EVENTS",
    "Layout",
    "Role",
    "UndecodableLog",
    "layouts_of",
    "topic_of",
]
