"""`GET /discover`: finds markets that match a text, and stays silent about some posts. Both run in linear time.
`docs/discovery.md` has the rules: how texts become words, which posts get no markets, and how markets are ranked.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal

from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from pydantic import BaseModel, Field

from api.agent.bodies.markets import AgentMarketRef, market_ref
from api.agent.bodies.parts import ChainAnswer, chain_meta
from api.agent.facts import ListedMarket, MarketsSnapshot
from api.agent.index import AgentParts
from api.caching import json_response
from api.operations import Body
from api.requests import read_query
from core.money import json_ratio_down

# ---------------------------------------------------------------- words

# Lists of phrases, by name.
LEXICON: Final[dict[str, list[str]]] = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text("utf-8"))
# Words without meaning for a market's subject; they are ignored.
STOPWORDS: Final = frozenset(LEXICON["stopwords"])

_UNITS: Final = {
    "k": 3, "thousand": 3, "тыс": 3, "m": 6, "mm": 6, "mn": 6, "mln": 6, "mio": 6, "million": 6, "millions": 6,
    "millones": 6, "milhoes": 6, "millionen": 6, "milioni": 6, "млн": 6, "b": 9, "bn": 9, "mrd": 9, "billion": 9,
    "billions": 9, "млрд": 9, "t": 12, "trillion": 12,
}  # fmt: skip
_CHARACTER_UNITS: Final = {"万": 4, "萬": 4, "亿": 8, "億": 8}
_NAMES: Final = ((12, "t"), (9, "b"), (6, "m"), (3, "k"))
# Smaller amounts keep their digits, so that years and round numbers stay as written.
_PLAIN_BELOW: Final = 10_000
_MAX_NUMBER_CHARACTERS: Final = 24

_CHINESE_JAPANESE: Final = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+)")
_ACCENTS: Final = re.compile(r"[\u0300-\u036f]")
_UNIT: Final = "|".join(sorted(_UNITS, key=len, reverse=True))
_NUMBER: Final = (
    rf"\$?(?P<number>\d[\d,]*(?:\.\d+)?)"
    rf"(?:\s?(?P<unit>{_UNIT})(?!\w)|\s?(?P<character>{'|'.join(_CHARACTER_UNITS)})|(?!\w))"
)
_TOKEN: Final = re.compile(rf"{_NUMBER}|\$(?P<tag>[^\W_]\w{{0,19}})(?!\w)|(?P<word>[^\W_]+)")
LINK: Final = re.compile(r"(?:https?://|www\.)\S+|(?<![\w@.-])(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}/\S*")
_MENTION: Final = re.compile(r"(?<!\w)@\w+")


@dataclass(frozen=True, slots=True)
class Words:
    """A text's search terms. `cashtags` are in upper case, in order. `terms` contains them, too, in lower case."""

    cashtags: tuple[str, ...]
    terms: frozenset[str]


def folded(text: str) -> str:
    """Normalize a text: apply NFKC, fold case, remove invisible characters and Latin, Greek and Cyrillic accents."""
    shown = unicodedata.normalize("NFKC", text)
    # Without joiners, direction marks and emoji selectors.
    visible = "".join(c for c in shown if unicodedata.category(c) != "Cf" and not "\ufe00" <= c <= "\ufe0f")
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", visible.casefold()))
    return _CHINESE_JAPANESE.sub(r" \1 ", unicodedata.normalize("NFC", bare).replace("\u2019", "'"))


def without_links(text: str) -> str:
    """Remove links and mentions from a folded text, since they do not describe the text's subject."""
    return _MENTION.sub(" ", LINK.sub(" ", text))


def words_of(text: str) -> Words:
    return scanned(without_links(folded(text)))


def scanned(text: str) -> Words:
    """Return the words of a folded text."""
    tags: dict[str, None] = {}
    terms: set[str] = set()
    for token in _TOKEN.finditer(text):
        if token["number"] is not None:
            zeros = _UNITS.get(token["unit"], 0) + _CHARACTER_UNITS.get(token["character"], 0)
            terms.add(_amount(token["number"], zeros))
        elif token["tag"] is not None:
            tags[token["tag"].upper()] = None
            terms.add(token["tag"])
        else:
            terms.update(_pairs(token["word"]))
    return Words(tuple(tags), frozenset(terms - STOPWORDS))


def _amount(number: str, zeros: int) -> str:
    if len(number) > _MAX_NUMBER_CHARACTERS:
        return number
    value = Decimal(number.replace(",", "")).scaleb(zeros)
    if value >= _PLAIN_BELOW:
        for power, name in _NAMES:
            if value >= Decimal(1).scaleb(power):
                return f"{value.scaleb(-power).normalize():f}{name}"
    return f"{value.normalize():f}"


def _pairs(word: str) -> list[str]:
    if not _CHINESE_JAPANESE.fullmatch(word):
        return [word]
    return [word[at : at + 2] for at in range(len(word) - 1)] or [word]


# ---------------------------------------------------------------- the silence gate


Silence = Literal["scam", "greeting", "settled_fact", "no_claim"]

_QUESTION: Final = re.compile(r"[?\u037e\u061f\u00bf]")
_LEVEL: Final = re.compile(r"\$\s?\d|\d\s?%|\d\s?(?:k|m|b|x|bn|million|billion|млн|млрд)(?!\w)|\d\s?[万萬亿億]")
_HOST: Final = re.compile(r"(?:https?://)?(?:www\.)?([^/\s:?#]+)")
_NUMERIC_HOST: Final = re.compile(r"\d+(?:\.\d+){3}")
_WORDS_BETWEEN: Final = r"(?:\s+\S+){1,4}?\s+"
_NO_BOUNDARIES: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_NOT_WORD: Final = re.compile(r"[\W_]+")
_EDGE: Final = re.compile(r"^[\W_]+|[\W_]+$")


def silence(post: str) -> Silence | None:
    """Return the reason to show no markets for a post, or None if the post may be a reason to bet."""
    text = " ".join(folded(post).split())
    if _SCAM.search(text) is not None or any(_baits(link) for link in LINK.findall(text)):
        return "scam"
    said = without_links(text)
    if _is_greeting(said):
        return "greeting"
    forward = _FORWARD.search(said) is not None or _QUESTION.search(said) is not None
    if not forward and _SETTLED.search(said) is not None:
        return "settled_fact"
    claims = forward or bool(scanned(said).cashtags) or _DIRECTION.search(said) is not None
    return None if claims or _LEVEL.search(said) is not None else "no_claim"


def _baits(link: str) -> bool:
    """Return whether a link hides its target or promises a gift."""
    parsed = _HOST.match(link)
    host = "" if parsed is None else parsed[1]
    if host in _HOSTS or host.startswith("xn--") or ".xn--" in host or _NUMERIC_HOST.fullmatch(host):
        return True
    return any(bait in link for bait in _LINK_PARTS) or not _LINK_WORDS.isdisjoint(_NOT_WORD.split(link))


def _is_greeting(said: str) -> bool:
    rest, greetings = _GREETING.subn(" ", said)
    if greetings == 0:
        return False
    left = (_EDGE.sub("", word) for word in rest.split() if not word.startswith("$"))
    return all(word in _FILLERS for word in left if word)


def _any_of(phrases: Iterable[str]) -> re.Pattern[str]:
    """Return one pattern that matches any of the phrases. Longer phrases are tried first, so that the longest one
    matches."""
    forms = sorted({" ".join(folded(phrase).split()) for phrase in phrases}, key=lambda each: (-len(each), each))
    anywhere = [_pattern(form) for form in forms if _NO_BOUNDARIES.search(form)]
    bounded = [_pattern(form) for form in forms if not _NO_BOUNDARIES.search(form)]
    return re.compile("|".join([rf"(?<!\w)(?:{'|'.join(bounded)})(?!\w)", *anywhere]))


def _pattern(phrase: str) -> str:
    return _WORDS_BETWEEN.join(re.escape(part) for part in phrase.split(" _ "))


_SCAM: Final = _any_of(LEXICON["scam_phrases"])
_GREETING: Final = _any_of(LEXICON["greetings"])
_SETTLED: Final = _any_of(LEXICON["settled"])
_FORWARD: Final = _any_of(LEXICON["forward"])
_DIRECTION: Final = _any_of(LEXICON["direction"])
_FILLERS: Final = frozenset(_EDGE.sub("", folded(word).strip()) for word in LEXICON["greeting_fillers"])
_HOSTS: Final = frozenset(LEXICON["scam_hosts"])
_LINK_PARTS: Final = tuple(LEXICON["scam_link_parts"])
_LINK_WORDS: Final = frozenset(LEXICON["scam_link_words"])


# ---------------------------------------------------------------- ranking

CASHTAG_SCORE: Final = 1_000
MatchKind = Literal["exact", "related"]
DEFAULT_LIMIT = 12
MAX_LIMIT = 50
SCORE_DECIMALS = 4
BROWSE: Final = "browse"


@dataclass(frozen=True, slots=True)
class Match:
    """A market that matches a text. `terms`: the words that the market and the text share."""

    market: ListedMarket
    kind: MatchKind
    score: Fraction
    cashtags: tuple[str, ...]
    terms: tuple[str, ...]
    reason: str


def terms_of(market: ListedMarket) -> frozenset[str]:
    words = market.words
    return _terms("\n".join((words.question, words.short_title, words.token_name, words.token_symbol)))


_terms = lru_cache(maxsize=4096)(lambda text: words_of(text).terms)


def rank_markets(markets: Sequence[ListedMarket], query: Words) -> list[Match]:
    """Return the matching markets, best first. If a market's cashtag is in the text, its score is 1000 plus the number
    of markets with a smaller pool. Any other market that shares a word with the text scores the Jaccard similarity of
    their words."""
    pools = sorted(each.book.net_pool for each in markets)
    rank = {pool: at for at, pool in reversed(list(enumerate(pools)))}
    matches = []
    for market in markets:
        has = terms_of(market)
        terms = tuple(sorted(query.terms & has))
        tag = folded(market.token_symbol).upper()
        if tag in query.cashtags:
            score = Fraction(CASHTAG_SCORE + rank[market.book.net_pool])
            matches.append(Match(market, "exact", score, (tag,), terms, f"cashtag ${tag}"))
        elif terms:
            score = Fraction(len(terms), len(query.terms | has))
            matches.append(Match(market, "related", score, (), terms, f"shares {', '.join(terms)}"))
    return sorted(matches, key=lambda each: (-each.score, each.market.closes_at, each.market.id))


def most_active(snapshot: MarketsSnapshot, markets: Iterable[ListedMarket]) -> list[Match]:
    """Return the markets, most active first: by stakes in the last 24 hours, then by number of bets."""
    busiest = sorted(
        markets, key=lambda each: (-snapshot.volume_24h.get(each.key, 0), -each.bets, each.closes_at, each.id)
    )
    return [Match(each, "related", Fraction(0), (), (), BROWSE) for each in busiest]


class DiscoverQuery(BaseModel):
    q: Annotated[str, Field(max_length=500)] | None = Field(default=None, description="Free text or a cashtag.")
    post: Annotated[str, Field(max_length=4_000)] | None = Field(default=None, description="A raw social post.")
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT, description=f"Page size, 1 to {MAX_LIMIT}.")] = DEFAULT_LIMIT


class DiscoverMatch(Body):
    """A market that was found. `reason` is `cashtag $SYM`, `shares word, word` or `browse`."""

    market: AgentMarketRef
    match_kind: MatchKind
    score: Decimal
    matched_cashtags: list[str]
    matched_terms: list[str]
    reason: str


class DiscoverBody(ChainAnswer, kw_only=True):
    """The markets that match a text. `reason` is present only if `silent` is true: `scam`, `greeting`, `settled_fact`
    or `no_claim`."""

    query: str | None
    silent: bool
    reason: Annotated[Silence | UnsetType, Meta(description="Absent unless silent.")] = UNSET
    count: int
    matches: list[DiscoverMatch]


class Discovery:
    def __init__(self, parts: AgentParts) -> None:
        self._index, self._links = parts.index, parts.links

    async def discover(self, request: web.Request) -> web.StreamResponse:
        query = read_query(request, DiscoverQuery)
        text, post = (each if each and each.strip() else None for each in (query.q, query.post))
        snapshot = self._index.required()
        silent_because = None if post is None else silence(post)
        found: list[Match] = []
        if silent_because is None:
            markets, searched = snapshot.open_markets(), text or post
            found = most_active(snapshot, markets) if searched is None else rank_markets(markets, words_of(searched))
        matches = [
            DiscoverMatch(
                market=market_ref(each.market, snapshot, self._links),
                match_kind=each.kind,
                score=json_ratio_down(each.score.numerator, each.score.denominator, SCORE_DECIMALS),
                matched_cashtags=list(each.cashtags),
                matched_terms=list(each.terms),
                reason=each.reason,
            )
            for each in found[: query.limit]
        ]
        return json_response(
            DiscoverBody(
                meta=chain_meta(self._links, snapshot),
                query=text,
                silent=silent_because is not None,
                reason=UNSET if silent_because is None else silent_because,
                count=len(matches),
                matches=matches,
            )
        )
