"""Ranking of markets for a text. Pure: the same text and markets give the same matches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal

from api.agent.discover.words import Words, folded, words_of
from api.agent.facts import ListedMarket, MarketsSnapshot

CASHTAG_SCORE: Final = 1_000
MatchKind = Literal["exact", "related"]
BROWSE: Final = "browse"


@dataclass(frozen=True, slots=True)
class Match:
    """A market that matches a text. `score` is exact; `terms` are the words they share."""

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


def rank_markets(markets: Sequence[ListedMarket], asked: Words) -> list[Match]:
    """Return the matching markets, best first. A market whose cashtag is in the text scores 1000 plus the number of
    markets with a smaller pool; any other scores the Jaccard similarity of the words, if they share any."""
    pools = sorted(each.book.net_pool for each in markets)
    rank = {pool: at for at, pool in reversed(list(enumerate(pools)))}
    matches = []
    for market in markets:
        has = terms_of(market)
        terms = tuple(sorted(asked.terms & has))
        tag = folded(market.token_symbol).upper()
        if tag in asked.cashtags:
            score = Fraction(CASHTAG_SCORE + rank[market.book.net_pool])
            matches.append(Match(market, "exact", score, (tag,), terms, f"cashtag ${tag}"))
        elif terms:
            score = Fraction(len(terms), len(asked.terms | has))
            matches.append(Match(market, "related", score, (), terms, f"shares {', '.join(terms)}"))
    return sorted(matches, key=lambda each: (-each.score, each.market.closes_at, each.market.id))


def most_active(snapshot: MarketsSnapshot, markets: Iterable[ListedMarket]) -> list[Match]:
    """Return the markets by activity: stakes of the last 24 hours, then number of bets."""
    busiest = sorted(
        markets, key=lambda each: (-snapshot.volume_24h.get(each.key, 0), -each.bets, each.closes_at, each.id)
    )
    return [Match(each, "related", Fraction(0), (), (), BROWSE) for each in busiest]
