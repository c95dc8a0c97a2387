"""Agent markets as the index would hold them, made up for tests without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from api.agent.facts import Head, Market, Observation, Venue, names_of
from core.market_words import described
from core.mirror.bet import market_key
from core.mirror.settlement import Book, Kind
from core.money import USD

NOW = 1_900_000_000
CAP = 100_000_000 * 10**8


def market(
    name: str,
    symbol: str,
    question: str,
    *,
    kind: Kind = Kind.THRESHOLD,
    pool: int = 0,
    net: tuple[int, ...] = (),
    closes: int = 86_400,
    **more: Any,
) -> Market:
    """An open market. `net`: USD on each outcome; `pool` puts all of it on the first; `closes`: seconds from now."""
    bounds = (50_000_000 * 10**8, CAP) if kind is Kind.RANGE else ()
    count = 3 if kind is Kind.RANGE else 2
    document = {"id": name, "slug": name, "tokenSymbol": symbol, "question": question, "shortTitle": question, **more}
    outcomes, texts = described(market_key(name), kind, CAP, bounds, NOW + closes, document)
    staked = tuple(each * USD for each in net or (pool, *(0,) * (count - 1)))
    book = replace(Book.empty(count, 1_000 * USD, 200), net=staked)
    return Market(
        key=market_key(name),
        kind=kind,
        feed="0x" + "bb" * 20,
        target=CAP,
        bounds=bounds,
        early_resolvable=False,
        opens_at=0,
        closes_at=NOW + closes,
        start_at=NOW,
        book=book,
        volume=sum(staked),
        bets=sum(staked) // (10 * USD),
        outcome_bets=(0,) * count,
        ending=None,
        listed_at=0,
        listed_order=(1, 0),
        version="1-0",
        document=document,
        outcomes=outcomes,
        texts=texts,
    )


def venue(
    *markets: Market, volumes: Mapping[str, int] | None = None, latest: Mapping[str, Observation] | None = None
) -> Venue:
    """At `NOW`. `volumes`: token units of the last 24 hours, by market id."""
    held = {each.key: each for each in markets}
    return Venue(
        head=Head(1, NOW, NOW, "ok", 0, 0),
        stakes_paused=False,
        reorgs=0,
        markets=held,
        latest=latest or {},
        volume_24h={market_key(name): amount for name, amount in (volumes or {}).items()},
        by_name=names_of(held),
    )
