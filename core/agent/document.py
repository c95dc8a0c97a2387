"""What an agent market is called, rendered from its specification and from what its feed observes.

Nothing that users see was worded by the lister: metadata carries an id, a series and links, and even its id is shown
only because the specification gives the same one. The id names everything that a market is decided by and when its
stakes end, so a key of the contract, which is the id's hash, stands for one specification.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal
from urllib.parse import urlsplit

from eth_utils.crypto import keccak

from core.agent.bet import market_key
from core.agent.book import DecidingTerms, MarketSpec, MarketTerms
from core.agent.words import (
    FeedSubject,
    OutcomeWords,
    beside,
    duration,
    interval,
    level_slug,
    moment,
    outcomes_of,
    slug,
    time_slug,
    usd_label,
)
from core.contracts.names import made_of, under
from core.contracts.statuses import MarketKind
from core.feeds.words import Computed
from core.hexadecimal import bytes_of, hex_of

ID_PATTERN = r"[a-z0-9]+(?:-[a-z0-9]+)*"
MAX_ID = 120
MAX_LINKS = 4
MAX_LINK = 300

# By the contract's kind; also the API's `targetMetric`.
Category = Literal["market_cap", "market_cap_range", "price_direction"]
CATEGORIES: Mapping[MarketKind, Category] = {
    MarketKind.THRESHOLD: "market_cap",
    MarketKind.RANGE: "market_cap_range",
    MarketKind.DIRECTION: "price_direction",
}

UNKNOWN_SYMBOL = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Specification(DecidingTerms):
    """What the chain says of a market: the listing and what the Safe's numbers made of it. Its weights and its pot say
    nothing about who wins, so they are not here."""

    feed: bytes
    opens_at: int
    closes_at: int

    @classmethod
    def of_row(cls, row: Any) -> Specification:
        """Make the specification from a row of `agent_market`."""
        said = {each.name: getattr(row, each.name) for each in fields(cls)}
        exact = {"kind": MarketKind(row.kind), "target": int(row.target), "bounds": tuple(map(int, row.bounds))}
        return cls(**{**said, **exact})

    @classmethod
    def of_listing(cls, spec: MarketSpec, feed: bytes, terms: MarketTerms) -> Specification:
        """Make the specification of a market that is to be listed."""
        return made_of(cls, {**asdict(spec), **asdict(terms), "feed": feed})


@dataclass(frozen=True, slots=True)
class MarketDocument:
    """Everything in words about one market. `rules` are sentences; the slug is the id.

    verified: whether the deployment file says what the feed observes and the id's hash is the market's key. Of any
    other market only what the contract itself says is shown, under the hex of its key. computed: how its feed's
    readings are made, where they come from pools.
    """

    id: str
    verified: bool
    question: str
    short_title: str
    summary: str
    rules: tuple[str, ...]
    token_symbol: str
    token_name: str
    outcomes: tuple[OutcomeWords, ...]
    deadline_label: str
    source: str
    computed: Computed | None = None

    @property
    def texts(self) -> dict[str, str]:
        """Return the texts under the names that bodies give them."""
        words = under(
            self, "id", "question", "shortTitle", "summary", "tokenSymbol", "tokenName", "deadlineLabel", "source"
        )
        return {**words, "slug": self.id, "rules": " ".join(self.rules), "chainId": "base"}


@dataclass(frozen=True, slots=True)
class Metadata:
    """The lister's metadata for a listing, found in the log alone: the id, the standing series it belongs to (empty for
    a one-off market), and links by name."""

    id: str
    series: str = ""
    links: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.fullmatch(ID_PATTERN, self.id) or len(self.id) > MAX_ID:
            raise ValueError(f"{self.id!r} is not a readable id of lower-case words and digits")
        if self.series and not _is_word(self.series):
            raise ValueError(f"{self.series!r} is not a lower-case word")
        if dict(self.links) != _links(self.links):
            raise ValueError(f"links are at most {MAX_LINKS} https addresses, each under a lower-case word")

    def canonical(self) -> str:
        """Return the JSON text, always the same bytes for the same words: keys sorted, no spaces."""
        document = {"id": self.id, "links": dict(self.links), "series": self.series}
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def read(cls, document: Any) -> Metadata | None:
        """Read the parts of untrusted JSON that have the right form; return None if the id has not. Everything else is
        ignored."""
        if not isinstance(document, Mapping):
            return None
        identity, series = document.get("id"), document.get("series")
        if not isinstance(identity, str) or not re.fullmatch(ID_PATTERN, identity) or len(identity) > MAX_ID:
            return None
        return cls(
            identity, series if isinstance(series, str) and _is_word(series) else "", _links(document.get("links"))
        )


def feed_keys(sources: Any) -> dict[bytes, str]:
    """Return the keys of a deployment's agent feeds, by address."""
    return {bytes_of(each.address): each.key for each in sources}


def described(
    key: bytes, spec: Specification, feed_key: str | None, computed: Computed | None = None
) -> MarketDocument:
    """Return the words of a listed market. `key` is the contract's id of it; `feed_key` None: the deployment file does
    not know the feed. `computed`: of a pool feed; it adds to the rules and to nothing else."""
    observed = None if feed_key is None else FeedSubject(feed_key)
    identity = None if observed is None else id_of(spec, observed)
    if identity is None or market_key(identity) != key:
        return _document(hex_of(key), False, spec, observed, computed)
    return _document(identity, True, spec, observed, computed)


def rendered(spec: Specification, feed_key: str) -> MarketDocument:
    """Return the words of a market that is to be listed, under the id it must be listed with."""
    observed = FeedSubject(feed_key)
    return _document(id_of(spec, observed), True, spec, observed, None)


# ---------------------------------------------------------------- the id


def id_of(spec: Specification, observed: FeedSubject) -> str:
    """Return the readable id: what is asked about which token, what decides it, and when stakes end.

    Not in it: when stakes begin (a time already past becomes that of the listing block, which is not known before), and
    what the Safe's numbers add. The contract lists an id once, so it still names one market.
    """
    symbol = slug(observed.symbol)
    metric = observed.metric_slug
    if spec.kind is MarketKind.DIRECTION:
        what = "up-or-down" if metric == "mcap" else f"{metric}-up-or-down"
        when = f"{time_slug(spec.start_at)}-to-{time_slug(spec.ends_at, spec.start_at)}"
        bets = time_slug(spec.closes_at, spec.start_at)
    else:
        when, bets = time_slug(spec.ends_at), time_slug(spec.closes_at, spec.ends_at)
        if spec.kind is MarketKind.RANGE:
            what = f"{metric}-{len(spec.bounds) + 1}-ranges-{_digest(spec.bounds)}-at"
        elif spec.early_resolvable:
            what = f"reaches-{level_slug(spec.target)}-{metric}-by"
        else:
            what = f"{level_slug(spec.target)}-{metric}-at"
    readable = f"{symbol}-{what}-{when}-bets-to-{bets}"
    if len(readable) <= MAX_ID and re.fullmatch(ID_PATTERN, readable):
        return readable
    return f"market-{keccak(text=readable).hex()[:32]}"


def _digest(bounds: tuple[int, ...]) -> str:
    return keccak(text=",".join(map(str, bounds))).hex()[:10]


# ---------------------------------------------------------------- the words


def _document(
    identity: str, verified: bool, spec: Specification, observed: FeedSubject | None, computed: Computed | None
) -> MarketDocument:
    symbol = UNKNOWN_SYMBOL if observed is None else observed.symbol
    address = hex_of(spec.feed)
    what = f"the reading of the feed {address}" if observed is None else f"{symbol}'s {observed.metric_words}"
    question, short_title, deciding = _asked(spec, what, f"feed {address[:10]}" if observed is None else observed.name)
    reference = spec.start_at if spec.kind is MarketKind.DIRECTION else spec.ends_at
    source = f"feed {address}" if observed is None else f"{observed.key} feed {address}"
    return MarketDocument(
        id=identity,
        verified=verified,
        question=f"{question} (bets end {beside(spec.closes_at, reference)})?",
        short_title=short_title,
        summary=f"Bets end at {moment(spec.closes_at)}. {_rule(spec, what)[0]}",
        rules=_rules(spec, what, source, computed),
        token_symbol=symbol,
        token_name=symbol if observed is None else observed.token_name,
        outcomes=outcomes_of(spec.kind, spec.bounds),
        deadline_label=f"bets end {moment(spec.closes_at)}, decided {deciding}",
        source=source[0].upper() + source[1:],
        computed=computed,
    )


def _asked(spec: Specification, what: str, name: str) -> tuple[str, str, str]:
    """Return the question without its question mark, the short title, and by which readings it is decided."""
    if spec.kind is MarketKind.DIRECTION:
        when = interval(spec.start_at, spec.ends_at)
        deciding = f"by the readings at {moment(spec.start_at)} and {beside(spec.ends_at, spec.start_at)}"
        return f"Will {what} go up or down from {when}", f"{name} up or down, {when}", deciding
    at = moment(spec.ends_at)
    if spec.kind is MarketKind.RANGE:
        return f"Where will {what} be at {at}", f"{name} range at {at}", f"by the reading at {at}"
    level = usd_label(spec.target)
    if spec.early_resolvable:
        when = interval(spec.early_from, spec.ends_at)
        return (
            f"Will {what} reach {level} from {when}",
            f"{name} reaches {level}, {when}",
            f"by readings dated from {when}",
        )
    return f"Will {what} be {level} or more at {at}", f"{name} {level} or more at {at}", f"by the reading at {at}"


def _rule(spec: Specification, what: str) -> tuple[str, ...]:
    """Return what decides, in sentences; the first says it all in short."""
    back = "every stake is given back whole"
    end = moment(spec.ends_at)
    if spec.kind is MarketKind.DIRECTION:
        return (
            f"Up if {what} at {end} is above what it is at {moment(spec.start_at)}, down if it is below; if they are "
            f"equal, {back}.",
        )
    if spec.kind is MarketKind.RANGE:
        return (
            f"The range that holds {what} at {end} wins.",
            "A bound belongs to the range above it.",
        )
    level = usd_label(spec.target)
    if not spec.early_resolvable:
        return (f"Yes if {what} at {end} is {level} or more, no if it is less.",)
    begin = moment(spec.early_from)
    return (
        f"Yes if a reading of {what} dated from {begin} to {end}, both included, is {level} or more, else no.",
        f"Readings dated before {begin} do not count: bets were still taken while they were measured.",
        f"Such a reading counts if it was recorded within an hour of its time, and settles yes at once; the last one, "
        f"at {end}, counts however late it was recorded.",
        f"If the last reading at {end} is {level} or more and is dated before {begin}, {back}.",
    )


def _rules(spec: Specification, what: str, source: str, computed: Computed | None) -> tuple[str, ...]:
    back = "every stake is given back whole"
    first, *others = _rule(spec, what)
    settles = moment(spec.settles_after)
    if spec.published:
        wait = (
            f"A publisher posts this feed's readings, so nothing is settled before the dispute window has ended, after "
            f"{settles}, or a day later if a guardian doubts a reading, once for the feed; if the Safe condemns the "
            f"feed before this market is settled, {back}."
        )
    elif spec.early_resolvable:
        wait = f"No is declared after {settles} at the earliest."
    else:
        wait = f"It is settled after {settles}."
    either = spec.kind is MarketKind.DIRECTION
    if computed is not None:
        readings = computed.rules(max_age=spec.max_age, either=either)
    else:
        used = "either" if either else "it"
        readings = (
            f"The reading at a moment is the newest that the {source} dates at or before it; if {used} is then more "
            f"than {duration(spec.max_age)} old, is missing, or is not above zero, {back}.",
        )
    return (
        f"Bets are taken from {moment(spec.opens_at)} until, and not at, {moment(spec.closes_at)}.",
        first,
        *others,
        *readings,
        wait,
        f"If nothing has settled it by {moment(spec.voids_after)}"
        + (" (a day later if that was put off)" if spec.published else "")
        + f", {back}.",
    )


# ---------------------------------------------------------------- metadata


def _is_word(text: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9-]{0,31}", text) is not None


def _links(given: Any) -> dict[str, str]:
    """Return the https addresses among untrusted links."""
    if not isinstance(given, Mapping) or len(given) > MAX_LINKS:
        return {}
    return {name: url for name, url in sorted(given.items(), key=str) if _is_link(name, url)}


def _is_link(name: Any, url: Any) -> bool:
    if not isinstance(name, str) or not isinstance(url, str) or not _is_word(name):
        return False
    if len(url) > MAX_LINK or not re.fullmatch(r"[\x21-\x7e]+", url) or any(each in url for each in "\"'<>\\`"):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" and bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:
        return False
