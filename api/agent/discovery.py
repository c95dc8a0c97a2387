"""`GET /discover`: the search for markets that match a text. `docs/discovery.md` has the formulas. Ranking is pure and
deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Final, Literal

from aiohttp import web
from msgspec import UNSET, Meta, UnsetType
from pydantic import BaseModel, Field

from api.agent.bodies.markets import AgentMarketRef, market_ref
from api.agent.bodies.parts import ChainAnswer, chain_meta
from api.agent.facts import ListedMarket, MarketsSnapshot
from api.agent.index import AgentIndex
from api.agent.links import Links
from api.agent.search_text import Words, folded, silence, words_of
from api.caching import json_response
from api.operations import Body
from api.requests import read_query
from core.money import json_ratio_down

CASHTAG_SCORE: Final = 1_000
MatchKind = Literal["exact", "related"]
BROWSE: Final = "browse"


@dataclass(frozen=True, slots=True)
class Match:
    """A market that matches a text. `score` is exact. `terms`: the words that the market and the text share."""

    market: ListedMarket
    kind: MatchKind
    score: Fraction
    cashtags: tuple[str, ...]
    terms: tuple[str, ...]
    reason: str


def terms_of(market: ListedMarket) -> frozenset[str]:
    """Return the words of a market's question, names and token symbol."""
    words = market.words
    return _terms("\n".join((words.question, words.short_title, words.token_name, words.token_symbol)))


@lru_cache(maxsize=4096)
def _terms(text: str) -> frozenset[str]:
    return words_of(text).terms


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


DEFAULT_LIMIT = 12
MAX_LIMIT = 50
SCORE_DECIMALS = 4


class DiscoverQuery(BaseModel):
    q: Annotated[str, Field(max_length=500)] | None = Field(default=None, description="Free text or a cashtag.")
    post: Annotated[str, Field(max_length=4_000)] | None = Field(default=None, description="A raw social post.")
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT, description=f"Page size, 1 to {MAX_LIMIT}.")] = DEFAULT_LIMIT


class DiscoverMatch(Body):
    """A market that was found. `reason` is `cashtag $SYM`, `shares word, word` or `browse`."""

    market: AgentMarketRef
    match_kind: Literal["exact", "related"]
    score: Decimal
    matched_cashtags: list[str]
    matched_terms: list[str]
    reason: str


class DiscoverBody(ChainAnswer, kw_only=True):
    """The markets that match a text. `reason` is present only if `silent` is true: `scam`, `greeting`, `settled_fact`
    or `no_claim`."""

    query: str | None
    silent: bool
    reason: Annotated[
        Literal["scam", "greeting", "settled_fact", "no_claim"] | UnsetType, Meta(description="Absent unless silent.")
    ] = UNSET
    count: int
    matches: list[DiscoverMatch]


class Discovery:
    """The search for open markets that match a text."""

    def __init__(self, index: AgentIndex, links: Links) -> None:
        self._index = index
        self._links = links

    async def discover(self, request: web.Request) -> web.StreamResponse:
        query = read_query(request, DiscoverQuery)
        text, post = _not_blank(query.q), _not_blank(query.post)
        snapshot = self._index.required()
        silent_because = None if post is None else silence(post)
        found: list[Match] = []
        if silent_because is None:
            markets, searched = snapshot.open_markets(), text or post
            found = most_active(snapshot, markets) if searched is None else rank_markets(markets, words_of(searched))
        matches = [self._match(each, snapshot) for each in found[: query.limit]]
        return json_response(
            DiscoverBody(
                meta=chain_meta(self._links, snapshot),
                query=text,
                silent=silent_because is not None,
                reason=UNSET if silent_because is None else silent_because.value,
                count=len(matches),
                matches=matches,
            )
        )

    def _match(self, match: Match, snapshot: MarketsSnapshot) -> DiscoverMatch:
        return DiscoverMatch(
            market=market_ref(match.market, snapshot, self._links),
            match_kind=match.kind,
            score=json_ratio_down(match.score.numerator, match.score.denominator, SCORE_DECIMALS),
            matched_cashtags=list(match.cashtags),
            matched_terms=list(match.terms),
            reason=match.reason,
        )


def _not_blank(text: str | None) -> str | None:
    """Return the text, or None if it is blank."""
    return None if text is None or not text.strip() else text
