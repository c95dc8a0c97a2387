"""The Safe's calls that allow, drop or condemn a feed for agent markets. The module also checks a pool feed's cap
against the current depth of its pools."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.contracts.deployments import Deployment
from core.contracts.feeds import AgentFeed, PoolFeed
from core.feeds.live import CostUnknown, live_cap_units
from core.money import USD
from scripts._deploy.safe import SafeCall
from scripts._deploy.session import ScriptRefused, ask_node


def allow(lister: Any, source: AgentFeed, safe: str) -> SafeCall | None:
    """Return the Safe's call that allows a feed, or None if the feed is already allowed with the same configuration.
    The call is first simulated as if from the Safe, so that a feed without a fresh positive reading is refused before
    several people sign."""
    if matches_record(lister.feed(source.address), source):
        return None
    given = (source.address, True, *_numbers(source))
    lister.setFeed.call(*given, sender=safe)
    return SafeCall(lister.address, bytes(lister.setFeed.encode_input(*given)), f"allow agent markets on {source.key}")


def drop(lister: Any, source: AgentFeed) -> SafeCall | None:
    """Return the Safe's call that removes a feed from the list, or None if the feed is not listed. The feed's existing
    markets continue."""
    if not lister.feed(source.address).allowed:
        return None
    data = bytes(lister.setFeed.encode_input(source.address, False, 0, 0, 0, 0))
    return SafeCall(lister.address, data, f"stop listing agent markets on {source.key}")


def condemn(lister: Any, source: AgentFeed, safe: str) -> SafeCall | None:
    """Return the Safe's call that condemns a feed and voids its unsettled markets. Return None if the feed is already
    condemned."""
    if lister.standing(source.address).condemned:
        return None
    lister.condemn.call(source.address, sender=safe)
    data = bytes(lister.condemn.encode_input(source.address))
    return SafeCall(lister.address, data, f"condemn {source.key} permanently and void every unsettled market on it")


def matches_record(feed: Any, source: AgentFeed) -> bool:
    return bool(feed.allowed) and (feed.memory_, feed.maxAge, feed.potCap, feed.feedCap) == _numbers(source)


def _numbers(source: AgentFeed) -> tuple[int, int, int, int]:
    return source.memory_seconds, source.max_age_seconds, source.pot_cap_units, source.feed_cap_units


# ---------------------------------------------------------------- caps of pool feeds


@dataclass(frozen=True)
class PoolLimit:
    """The cap that `vpm feed cost` computes, in `units` of the stablecoin. If there is none, `units` is None and `why`
    gives the reason."""

    units: int | None
    why: str

    @property
    def text(self) -> str:
        return f"an unknown amount ({self.why})" if self.units is None else f"{_dollars(self.units)} USD"

    def covers(self, feed: PoolFeed) -> bool:
        return self.units is not None and feed.feed_cap_units <= self.units


def pool_limit(url: str, facts: Deployment, feed: PoolFeed) -> PoolLimit:
    """Return the cap that a feed's pools currently support, assuming that the attacker owns half of their liquidity."""
    fee = int(facts.params.get("feeBps", 0))
    try:
        return PoolLimit(ask_node(url, lambda client: live_cap_units(client, facts.pool_factories, feed, fee)), "")
    except CostUnknown as error:
        return PoolLimit(None, error.sentence())


def check_cap(feed: PoolFeed, limit: PoolLimit, *, local: bool, evidence: str | None) -> str:
    """Return a sentence that compares a feed's cap with the limit. On a live network, refuse a cap above the limit
    unless evidence is given."""
    asked = (
        f"{feed.key}: the caps are {_dollars(feed.feed_cap_units)} USD for all markets together and "
        f"{_dollars(feed.pot_cap_units)} USD for each; the pools support {limit.text}"
    )
    if limit.covers(feed):
        return asked
    if evidence is not None:
        return f"{asked}. This is allowed because of the evidence recorded in the deployment file: {evidence}"
    if local:
        return f"{asked}. A local chain allows this because its money is not real."
    raise ScriptRefused(
        f"{asked}. Lower feedCapUnits in the deployment file, or use --evidence to name a document which shows that "
        "these pools are arbitraged against other venues; see docs/pool-feeds.md."
    )


def evidence_of(given: str) -> str:
    """Return the evidence to record: a URL unchanged, or the name and hash of a file."""
    if given.startswith(("https://", "ipfs://")):
        return given
    try:
        content = Path(given).read_bytes()
    except OSError as error:
        raise ScriptRefused(
            f"--evidence {given} is neither an https:// or ipfs:// URL nor a readable file: {error.strerror}."
        ) from None
    if not content.strip():
        raise ScriptRefused(f"--evidence {given} is an empty file.")
    return f"{Path(given).name} sha256:{hashlib.sha256(content).hexdigest()}"


def with_evidence(facts: Deployment, feed: PoolFeed, evidence: str, limit: PoolLimit) -> Deployment:
    shown = {"pot_cap_evidence": evidence, "supported_cap_units": limit.units or None}
    changed = PoolFeed.model_validate(feed.model_dump() | shown)
    feeds = tuple(changed if each == feed else each for each in facts.feeds)
    return Deployment.model_validate(facts.model_dump() | {"feeds": feeds})


def _dollars(units: int) -> str:
    """Return an amount in USD, rounded down to a cent."""
    return f"{units // USD:,}.{units % USD * 100 // USD:02d}"
