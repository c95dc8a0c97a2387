"""Agent markets as the index would have them, made for tests without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from api.agent.facts import FeedRound, ListedMarket, MarketsSnapshot, Stake
from api.head import Head
from core.agent.bet import market_key
from core.agent.book import Book
from core.agent.document import MarketDocument, Specification
from core.agent.words import outcomes_of
from core.contracts.statuses import MarketKind, RefundReason
from core.money import USD

NOW = 1_900_000_000
CAP = 100_000_000 * 10**8
FEED = bytes.fromhex("bb" * 20)
WEIGHT = 500 * USD
FEE_BPS = 200


def specification(
    kind: MarketKind = MarketKind.THRESHOLD, *, closes_at: int, bounds: tuple[int, ...] = ()
) -> Specification:
    """Return the specification of a market that opens at 0 and measures an hour after bets have ended."""
    begins = closes_at + 3_600
    return Specification(
        kind=kind,
        feed=FEED,
        target=CAP if kind is MarketKind.THRESHOLD else 0,
        bounds=bounds,
        early_resolvable=False,
        published=True,
        max_age=3_600,
        opens_at=0,
        closes_at=closes_at,
        start_at=begins if kind is MarketKind.DIRECTION else 0,
        ends_at=begins + 3_600,
        early_from=0,
        settles_after=begins + 7_200,
        voids_after=begins + 90_000,
    )


def words(name: str, spec: Specification, symbol: str, question: str, **changes: Any) -> MarketDocument:
    made = MarketDocument(
        id=name,
        verified=True,
        question=question,
        short_title=question,
        summary=question,
        rules=("What decides.", "When.", "What if a reading is missing."),
        fine_print="The rest.",
        token_symbol=symbol,
        token_name=symbol,
        outcomes=outcomes_of(spec.kind, spec.bounds),
        deadline_label="in time",
        source="A feed",
    )
    return replace(made, **changes)


def market(
    name: str,
    symbol: str,
    question: str,
    *,
    kind: MarketKind = MarketKind.THRESHOLD,
    pool: int = 0,
    net: tuple[int, ...] = (),
    closes: int = 86_400,
    **more: Any,
) -> ListedMarket:
    bounds = (50_000_000 * 10**8, CAP) if kind is MarketKind.RANGE else ()
    count = len(bounds) + 1 if bounds else 2
    spec = specification(kind, closes_at=NOW + closes, bounds=bounds)
    staked = tuple(each * USD for each in net or (pool, *(0,) * (count - 1)))
    return ListedMarket(
        key=market_key(name),
        feed="0x" + FEED.hex(),
        spec=spec,
        words=words(name, spec, symbol, question, **more),
        book=replace(Book.empty((WEIGHT,) * count, FEE_BPS), net=staked),
        volume=sum(staked),
        pot_cap=1_000_000 * USD,
        bets=sum(staked) // (10 * USD),
        outcome_bets=(0,) * count,
        ending=None,
        listed_order=(1, 0),
        version="1-0",
        metadata=None,
    )


def stake(outcome: int | None, amount: int, fee: int, shares: int, **changes: Any) -> Stake:
    made = Stake(
        id=1,
        market_key=market_key("m"),
        ordinal=0,
        wallet="0x" + "11" * 20,
        outcome=outcome,
        amount=amount,
        fee=fee,
        shares=shares,
        price_after=None,
        bet_hash=bytes(32),
        idem_hash=bytes(32),
        builder=None,
        ref=None,
        refund_reason=RefundReason.CLOSED if outcome is None else None,
        block=1,
        log_index=0,
        at=1,
        tx=bytes(32),
        paid_tx=None,
    )
    return replace(made, **changes)


def snapshot(
    *markets: ListedMarket, volumes: Mapping[str, int] | None = None, latest: Mapping[str, FeedRound] | None = None
) -> MarketsSnapshot:
    held = {each.key: each for each in markets}
    return MarketsSnapshot(
        head=Head(1, NOW, NOW, "ok", 0, 0),
        stakes_paused=False,
        reorgs=0,
        markets=held,
        latest=latest or {},
        volume_24h={market_key(name): amount for name, amount in (volumes or {}).items()},
    )
