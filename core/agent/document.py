"""The texts about an agent market, rendered from its specification and its feed's subject.

The lister writes none of these texts. The lister's metadata contains only an id and a series, and the id is shown only
if the specification yields the same id. The id covers the time when staking ends and every term that decides the
market. The market's key in the contract is the hash of the id, so each key stands for exactly one specification.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from eth_utils.crypto import keccak

from core.agent.bet import market_key
from core.agent.book import DecidingTerms, MarketSpec, MarketTerms
from core.agent.words import (
    FeedSubject,
    OutcomeWords,
    clock,
    day,
    duration,
    level_slug,
    moment,
    on_one_day,
    outcomes_of,
    short_moment,
    slug,
    time_slug,
    title_moment,
    usd_label,
)
from core.contracts.names import camel_fields, from_answer
from core.contracts.statuses import MarketKind
from core.feeds.words import Computed
from core.hexadecimal import bytes_of, hex_of

ID_PATTERN = r"[a-z0-9]+(?:-[a-z0-9]+)*"
MAX_ID = 120

# By kind in the contract; also the API's `targetMetric`.
Category = Literal["market_cap", "market_cap_range", "price_direction"]
CATEGORIES: Mapping[MarketKind, Category] = {
    MarketKind.THRESHOLD: "market_cap",
    MarketKind.RANGE: "market_cap_range",
    MarketKind.DIRECTION: "price_direction",
}

UNKNOWN_SYMBOL = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Specification(DecidingTerms):
    """A market's specification on chain: the lister's choices, and the terms that the Safe's bounds add. The weights
    and the pot cap are left out, since they do not affect who wins."""

    feed: bytes
    opens_at: int
    closes_at: int

    @classmethod
    def from_row(cls, row: Any) -> Specification:
        """Make a specification from a row of `agent_market`."""
        said = {each.name: getattr(row, each.name) for each in fields(cls)}
        exact = {"kind": MarketKind(row.kind), "target": int(row.target), "bounds": tuple(map(int, row.bounds))}
        return cls(**{**said, **exact})

    @classmethod
    def from_listing(cls, spec: MarketSpec, feed: bytes, terms: MarketTerms) -> Specification:
        return from_answer(cls, {**asdict(spec), **asdict(terms), "feed": feed})


@dataclass(frozen=True, slots=True)
class MarketDocument:
    """The texts about one market. The slug is the market's id. `rules` has three short paragraphs: what decides the
    market, when it is decided, and what happens if a reading is missing.

    verified: True if the deployment file says what the feed observes and the market's key is the hash of the id. An
    unverified market is shown under its key in hex, with only what the contract itself says.
    computed: how a pool feed computes its readings; None for other feeds.
    """

    id: str
    verified: bool
    question: str
    short_title: str
    summary: str
    rules: tuple[str, str, str]
    fine_print: str
    token_symbol: str
    token_name: str
    outcomes: tuple[OutcomeWords, ...]
    deadline_label: str
    source: str
    computed: Computed | None = None

    @property
    def texts(self) -> dict[str, str]:
        """Return the texts by their API names."""
        words = camel_fields(
            self, "id", "question", "shortTitle", "summary", "tokenSymbol", "tokenName", "deadlineLabel", "source"
        )
        return {**words, "slug": self.id, "rules": self.rules_text, "chainId": "base"}

    @property
    def rules_text(self) -> str:
        return "\n\n".join((*self.rules, self.fine_print))


@dataclass(frozen=True, slots=True)
class Metadata:
    """The lister's metadata about a market: the market's id, and its standing series if it belongs to one. On chain,
    the metadata is stored only in the event log."""

    id: str
    series: str = ""

    def canonical(self) -> str:
        """Return the metadata as JSON text. Equal metadata gives the same bytes."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def read(cls, document: Any) -> Metadata | None:
        """Read untrusted JSON. Return None if the id is malformed; ignore a malformed series."""
        if not isinstance(document, Mapping):
            return None
        identity, series = document.get("id"), document.get("series")
        if not isinstance(identity, str) or not re.fullmatch(ID_PATTERN, identity) or len(identity) > MAX_ID:
            return None
        if not isinstance(series, str) or not re.fullmatch(r"[a-z][a-z0-9-]{0,31}", series):
            series = ""
        return cls(identity, series)


def feed_keys(sources: Any) -> dict[bytes, str]:
    """Return each feed's key by the feed's address."""
    return {bytes_of(each.address): each.key for each in sources}


def listed_document(
    key: bytes, spec: Specification, feed_key: str | None, computed: Computed | None = None
) -> MarketDocument:
    """Return the texts of a listed market.

    key: the market's key in the contract.
    feed_key: the feed's key, or None if the deployment file does not list the feed.
    computed: how a pool feed computes its readings; used only in the rules.
    """
    subject = None if feed_key is None else FeedSubject(feed_key)
    identity = None if subject is None else id_of(spec, subject)
    if identity is None or market_key(identity) != key:
        return _document(hex_of(key), False, spec, subject, computed)
    return _document(identity, True, spec, subject, computed)


def draft_document(spec: Specification, feed_key: str) -> MarketDocument:
    """Return the texts of a market that is about to be listed. The listing must use the id in these texts."""
    subject = FeedSubject(feed_key)
    return _document(id_of(spec, subject), True, spec, subject, None)


# ---------------------------------------------------------------- the id


def id_of(spec: Specification, subject: FeedSubject) -> str:
    """Return the readable id. It consists of the question, the token, the terms that decide the market, and the time
    when staking ends.

    The id omits the time when staking begins: the contract replaces a past time with the time of the listing block,
    which is not known in advance. The id also omits the terms that the Safe's bounds add. The contract lists an id only
    once, so the id still identifies one market.
    """
    symbol = slug(subject.symbol)
    metric = subject.metric_slug
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

_REFUND = "all stakes are refunded in full"


def _document(
    identity: str, verified: bool, spec: Specification, subject: FeedSubject | None, computed: Computed | None
) -> MarketDocument:
    symbol = UNKNOWN_SYMBOL if subject is None else subject.symbol
    address = hex_of(spec.feed)
    measure = f"the reading of feed {address}" if subject is None else f"{symbol}'s {subject.metric_words}"
    short_name = f"feed {address[:10]}" if subject is None else subject.name
    source = f"feed {address}" if subject is None else f"{subject.key} feed {address}"
    deciding = _deciding_rule(spec, measure)
    return MarketDocument(
        id=identity,
        verified=verified,
        question=_question(spec, measure, measure if subject is None else f"{symbol} {subject.metric_words}"),
        short_title=_short_title(spec, short_name),
        summary=deciding,
        rules=(deciding, _timing_rule(spec), _refund_rule(spec, computed)),
        fine_print=" ".join(_fine_print(spec, source, computed)),
        token_symbol=symbol,
        token_name=symbol if subject is None else subject.token_name,
        outcomes=outcomes_of(spec.kind, spec.bounds),
        deadline_label=f"bets end {moment(spec.closes_at)}, decided {_deciding_readings(spec)}",
        source=source[0].upper() + source[1:],
        computed=computed,
    )


def _question(spec: Specification, measure: str, short_measure: str) -> str:
    """Return the question as a person would ask it. The question omits the time when betting ends, which is a separate
    field."""
    start, end = spec.start_at, spec.ends_at
    if spec.kind is MarketKind.DIRECTION:
        subject = short_measure[0].upper() + short_measure[1:]
        if on_one_day(start, end):
            return f"{subject}: higher at {clock(end)} than at {clock(start)} UTC on {day(end)}?"
        return f"{subject}: higher {title_moment(end)} than {title_moment(start)}?"
    if spec.kind is MarketKind.RANGE:
        return f"Where will {measure} be {title_moment(end)}?"
    level = usd_label(spec.target)
    if not spec.early_resolvable:
        return f"Will {measure} be {level} or more {title_moment(end)}?"
    start = spec.early_from
    if on_one_day(start, end):
        return f"Will {measure} reach {level} between {clock(start)} and {clock(end)} UTC on {day(end)}?"
    return f"Will {measure} reach {level} between {moment(start)} and {moment(end)}?"


def _short_title(spec: Specification, name: str) -> str:
    end = short_moment(spec.ends_at)
    if spec.kind is MarketKind.DIRECTION:
        if on_one_day(spec.start_at, spec.ends_at):
            return f"{name} up or down, {short_moment(spec.start_at)}–{clock(spec.ends_at)} UTC"
        return f"{name} up or down, {short_moment(spec.start_at)} to {end} UTC"
    if spec.kind is MarketKind.RANGE:
        return f"{name} range, {end} UTC"
    level = usd_label(spec.target)
    return f"{name} reaches {level} by {end} UTC" if spec.early_resolvable else f"{name} {level} or more, {end} UTC"


def _deciding_readings(spec: Specification) -> str:
    end = moment(spec.ends_at)
    if spec.kind is MarketKind.DIRECTION:
        return f"by the readings at {moment(spec.start_at)} and {end}"
    if spec.early_resolvable:
        return f"by readings dated from {moment(spec.early_from)} to {end}"
    return f"by the reading at {end}"


def _deciding_rule(spec: Specification, measure: str) -> str:
    end = moment(spec.ends_at)
    if spec.kind is MarketKind.DIRECTION:
        return (
            f"Up wins if {measure} is higher at {end} than at {moment(spec.start_at)}, down if it is lower. If the two "
            f"readings are equal, {_REFUND}."
        )
    if spec.kind is MarketKind.RANGE:
        return f"The range that contains {measure} at {end} wins. A bound belongs to the range above it."
    level = usd_label(spec.target)
    if not spec.early_resolvable:
        return f"Yes wins if {measure} is {level} or more at {end}, no if it is less."
    return (
        f"Yes wins if any reading of {measure} dated from {moment(spec.early_from)} to {end}, both included, is "
        f"{level} or more. Otherwise no wins."
    )


def _timing_rule(spec: Specification) -> str:
    bets = f"Bets are accepted from {moment(spec.opens_at)} until just before {moment(spec.closes_at)}."
    settles = moment(spec.settles_after)
    if spec.early_resolvable:
        return f"{bets} Yes settles as soon as such a reading is recorded, no after {settles}."
    if spec.published:
        return f"{bets} The market settles after {settles}, when the dispute window has ended."
    return f"{bets} The market settles after {settles}."


def _refund_rule(spec: Specification, computed: Computed | None) -> str:
    reading = "either reading" if spec.kind is MarketKind.DIRECTION else "the reading"
    if spec.early_resolvable:
        reading = "yes has not won and the last reading"
    unusable = "unusable" if computed else f"not above zero, or more than {duration(spec.max_age)} old at its moment"
    joined = f"{reading} is missing{' or' if computed else ','} {unusable}"
    return f"If {joined}, or if nothing has settled the market by {moment(spec.voids_after)}, {_REFUND}."


def _fine_print(spec: Specification, source: str, computed: Computed | None) -> list[str]:
    sentences: list[str] = []
    if computed is not None:
        sentences += computed.rules(max_age=spec.max_age)
    else:
        sentences.append(
            f"The reading at a time is the newest reading of the {source} that is dated at or before that time."
        )
    if spec.early_resolvable:
        begin, end, level = moment(spec.early_from), moment(spec.ends_at), usd_label(spec.target)
        sentences += [
            f"Readings dated before {begin} do not count, because bets were still accepted while they were measured.",
            f"A reading counts only if it is recorded within an hour of its time; the last one, at {end}, counts "
            "however late it is recorded.",
            f"If the last reading at {end} is {level} or more but is dated before {begin}, {_REFUND}.",
        ]
    if spec.published:
        sentences += [
            "A publisher posts this feed's readings, and they can be disputed until the market settles.",
            "A guardian who doubts a reading can delay settlement and the refund date by a day, once per feed.",
            f"If the Safe condemns the feed before this market settles, {_REFUND}.",
        ]
    return sentences
