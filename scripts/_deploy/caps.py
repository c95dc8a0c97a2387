"""What the pools of a feed bear as they are now, next to the feed cap that the Safe is asked to allow."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from core.contracts.deployments import Deployment
from core.contracts.feeds import PoolFeed
from core.feeds.live_cost import CannotSay, borne_units
from core.money import USD
from scripts._deploy.session import ScriptRefused, ask_node


@dataclass(frozen=True)
class Borne:
    """The cap that `vpm feed cost` finds, in units of the stablecoin; None: the pools do not say enough for one."""

    units: int | None
    why: str

    @property
    def in_words(self) -> str:
        return f"nothing that could be told ({self.why})" if self.units is None else f"{_dollars(self.units)} USD"

    def covers(self, feed: PoolFeed) -> bool:
        return self.units is not None and feed.feed_cap_units <= self.units


def borne(url: str, facts: Deployment, feed: PoolFeed) -> Borne:
    """Return what its pools bear at the newest block, with half of their depth taken for the attacker's own."""
    fee = int(facts.params.get("feeBps", 0))
    try:
        return Borne(ask_node(url, lambda client: borne_units(client, facts.pool_factories, feed, fee)), "")
    except CannotSay as error:
        return Borne(None, error.sentence())


def judged(feed: PoolFeed, limit: Borne, *, local: bool, evidence: str | None) -> str:
    """A sentence about the cap; Refused where it is more than the pools bear, the money is real, and nothing is shown
    for it."""
    asked = (
        f"{feed.key}: its markets may hold {_dollars(feed.feed_cap_units)} USD together, each "
        f"{_dollars(feed.pot_cap_units)}; the pools bear {limit.in_words}"
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
    """As the deployment file has it: a URL as it is; of a file its name and hash, so that what was read then can be
    told from what it says later."""
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


def with_evidence(facts: Deployment, feed: PoolFeed, evidence: str, limit: Borne) -> Deployment:
    """Return the deployment file with the evidence for the feed's cap, and what its pools bore by themselves."""
    shown = {"pot_cap_evidence": evidence, "borne_cap_units": limit.units or None}
    changed = PoolFeed.model_validate(feed.model_dump() | shown)
    feeds = tuple(changed if each == feed else each for each in facts.feeds)
    return Deployment.model_validate(facts.model_dump() | {"feeds": feeds})


def _dollars(units: int) -> str:
    """Rounded down to a cent."""
    return f"{units // USD:,}.{units % USD * 100 // USD:02d}"
