"""The Safe's list of feeds for agent markets: what it has to sign to allow, drop or condemn one of ours."""

from __future__ import annotations

from typing import Any

from core.contracts.feeds import AgentFeed
from scripts._deploy.safe import SafeCall


def allow(lister: Any, source: AgentFeed, safe: str) -> SafeCall | None:
    """None when it is allowed with these numbers already.

    The call is tried first, as the Safe: a feed without a fresh positive reading is refused here with the contract's
    own reason, not by a transaction that several people have signed.
    """
    if is_as_recorded(lister.feed(source.address), source):
        return None
    given = (source.address, True, *_numbers(source))
    lister.setFeed.call(*given, sender=safe)
    return SafeCall(lister.address, bytes(lister.setFeed.encode_input(*given)), f"allow agent markets on {source.key}")


def drop(lister: Any, source: AgentFeed) -> SafeCall | None:
    """Takes it off the list; markets already listed go on. None when it is not on it."""
    if not lister.feed(source.address).allowed:
        return None
    data = bytes(lister.setFeed.encode_input(source.address, False, 0, 0, 0, 0))
    return SafeCall(lister.address, data, f"list no more agent markets on {source.key}")


def condemn(lister: Any, source: AgentFeed, safe: str) -> SafeCall | None:
    """Voids every unsettled market on it, for good. None when it is condemned already."""
    if lister.standing(source.address).condemned:
        return None
    lister.condemn.call(source.address, sender=safe)
    data = bytes(lister.condemn.encode_input(source.address))
    return SafeCall(lister.address, data, f"condemn {source.key}: void every unsettled market on it, for good")


def is_as_recorded(feed: Any, source: AgentFeed) -> bool:
    """Return whether the lister's Feed is allowed with the file's numbers."""
    return bool(feed.allowed) and (feed.memory_, feed.maxAge, feed.potCap, feed.feedCap) == _numbers(source)


def _numbers(source: AgentFeed) -> tuple[int, int, int, int]:
    return source.memory_seconds, source.max_age_seconds, source.pot_cap_units, source.feed_cap_units
