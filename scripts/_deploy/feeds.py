"""The Safe's list of feeds for agent markets: what it has to sign to allow, drop or condemn one of ours, and what the
pools of a feed bear as they are now, next to the feed cap that it is asked to allow."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.contracts.deployments import Deployment
from core.contracts.feeds import AgentFeed, PoolFeed
from core.feeds.live_cost import CostUnknown, live_cap_units
from core.money import USD
from scripts._deploy.safe import SafeCall
from scripts._deploy.session import ScriptRefused, ask_node


def allow(lister: Any, source: AgentFeed, safe: str) -> SafeCall | None:
    """Return the Safe's call that allows a feed; None when it is allowed with these numbers already.

    The call is tried first, as the Safe: a feed without a fresh positive reading is refused here with the contract's
    own reason, not by a transaction that several people have signed.
    """
    if matches_record(lister.feed(source.address), source):
        return None
    given = (source.address, True, *_numbers(source))
    lister.setFeed.call(*given, sender=safe)
    return SafeCall(lister.address, bytes(lister.setFeed.encode_input(*given)), f"allow agent markets on {source.key}")


def drop(lister: Any, source: AgentFeed) -> SafeCall | None:
    """Take it off the list; markets already listed go on. None when it is not on it."""
    if not lister.feed(source.address).allowed:
        return None
    data = bytes(lister.setFeed.encode_input(source.address, False, 0, 0, 0, 0))
    return SafeCall(lister.address, data, f"list no more agent markets on {source.key}")


def condemn(lister: Any, source: AgentFeed, safe: str) -> SafeCall | None:
    """Void every unsettled market on it, for good. None when it is condemned already."""
    if lister.standing(source.address).condemned:
        return None
    lister.condemn.call(source.address, sender=safe)
    data = bytes(lister.condemn.encode_input(source.address))
    return SafeCall(lister.address, data, f"condemn {source.key}: void every unsettled market on it, for good")


def matches_record(feed: Any, source: AgentFeed) -> bool:
    """Return whether the lister's Feed is allowed with the file's numbers."""
    return bool(feed.allowed) and (feed.memory_, feed.maxAge, feed.potCap, feed.feedCap) == _numbers(source)


def _numbers(source: AgentFeed) -> tuple[int, int, int, int]:
    return source.memory_seconds, source.max_age_seconds, source.pot_cap_units, source.feed_cap_units


# ---------------------------------------------------------------- what its pools bear


@dataclass(frozen=True)
class PoolLimit:
    """The cap that `vpm feed cost` finds, in units of the stablecoin; None: the pools do not say enough for one."""

    units: int | None
    why: str

    @property
    def text(self) -> str:
        return f"nothing that could be told ({self.why})" if self.units is None else f"{_dollars(self.units)} USD"

    def covers(self, feed: PoolFeed) -> bool:
        return self.units is not None and feed.feed_cap_units <= self.units


def pool_limit(url: str, facts: Deployment, feed: PoolFeed) -> PoolLimit:
    """Return what its pools bear at the newest block, with half of their depth taken for the attacker's own."""
    fee = int(facts.params.get("feeBps", 0))
    try:
        return PoolLimit(ask_node(url, lambda client: live_cap_units(client, facts.pool_factories, feed, fee)), "")
    except CostUnknown as error:
        return PoolLimit(None, error.sentence())


def check_cap(feed: PoolFeed, limit: PoolLimit, *, local: bool, evidence: str | None) -> str:
    """Return a sentence about the cap; ScriptRefused where it is more than the pools bear, the money is real, and
    nothing is shown for it."""
    asked = (
        f"{feed.key}: its markets may hold {_dollars(feed.feed_cap_units)} USD together, each "
        f"{_dollars(feed.pot_cap_units)}; the pools bear {limit.text}"
    )
    if limit.covers(feed):
        return asked
    if evidence is not None:
        return f"{asked}. Allowed on this evidence, which the deployment file names: {evidence}"
    if local:
        return f"{asked}. No matter on a local chain, where it is nobody's money."
    raise ScriptRefused(
        f"{asked}. Ask for less (feedCapUnits in the deployment file), or say with --evidence where it is shown that "
        "other venues are arbitraged against these pools; docs/pool-feeds.md says what that has to show."
    )


def evidence_of(given: str) -> str:
    """Return the evidence as the deployment file has it: a URL unchanged; for a file its name and hash, so that a later
    change to it shows."""
    if given.startswith(("https://", "ipfs://")):
        return given
    try:
        content = Path(given).read_bytes()
    except OSError as error:
        raise ScriptRefused(
            f"--evidence {given} is no https:// or ipfs:// address, and as a file it cannot be read: {error.strerror}."
        ) from None
    if not content.strip():
        raise ScriptRefused(f"--evidence {given} is an empty file.")
    return f"{Path(given).name} sha256:{hashlib.sha256(content).hexdigest()}"


def with_evidence(facts: Deployment, feed: PoolFeed, evidence: str, limit: PoolLimit) -> Deployment:
    """Return the deployment file with the evidence for the feed's cap, and what its pools bore by themselves."""
    shown = {"pot_cap_evidence": evidence, "borne_cap_units": limit.units or None}
    changed = PoolFeed.model_validate(feed.model_dump() | shown)
    feeds = tuple(changed if each == feed else each for each in facts.feeds)
    return Deployment.model_validate(facts.model_dump() | {"feeds": feeds})


def _dollars(units: int) -> str:
    """Rounded down to a cent."""
    return f"{units // USD:,}.{units % USD * 100 // USD:02d}"
