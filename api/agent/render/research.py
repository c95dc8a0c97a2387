"""What research adds to a market: the rules and readings that decide it, its past, and what bets would do."""

from __future__ import annotations

from collections.abc import Mapping

from api.agent import outlook
from api.agent.facts import FeedRound, ListedMarket, Stake, deciding_times
from api.agent.links import Links
from api.agent.render.markets import source, source_url, times
from api.agent.render.numbers import average_cents, feed_usd, pct, percents, usd
from api.http.body import Json
from core.agent.fixed import WAD
from core.agent.words import usd_label
from core.contracts.statuses import MarketKind
from core.hexadecimal import hex_of
from core.iso import iso
from core.money import USD

IMPACT_SIZES = (1, 5, 10, 50, 100, 500, 1_000)


def impact(market: ListedMarket) -> list[Json]:
    """What bets of several sizes on the first outcome would do."""
    rows = []
    for dollars in IMPACT_SIZES:
        got = market.book.quote(0, dollars * USD)
        rows.append(
            {
                "sizeUsd": dollars,
                "priceCents": average_cents(got.net, got.shares),
                "impactPct": pct(got.price_after - got.price_before, WAD),
                **outlook.of_quote(market, 0, got).body(),
            }
        )
    return rows


def feed_kind(market: ListedMarket) -> str:
    """`pool`: computed from pools. `published`: posted by a publisher. `rounds`: of another feed on the chain."""
    if market.words.computed is not None:
        return "pool"
    return "published" if market.spec.published else "rounds"


def computed_from(market: ListedMarket, links: Links) -> Json | None:
    """How a pool feed's reading comes about; None of a feed that is given its values."""
    computed = market.words.computed
    if computed is None:
        return None
    return {
        "description": computed.sentence,
        "pools": [
            {"name": pool.name, "address": pool.address, "url": links.address(pool.address)} for pool in computed.pools
        ],
        "windowSeconds": computed.window,
        "stepSeconds": computed.step,
        "supply": computed.supply,
    }


def decided_by(market: ListedMarket, now: int, readings: Mapping[int, FeedRound], links: Links) -> list[Json]:
    """The readings that decide it, each with the transaction that brought it to the chain, or none yet."""
    rows = []
    for moment, at in deciding_times(market, now).items():
        reading = readings.get(at)
        rows.append(
            {
                "moment": iso(moment),
                "readAt": iso(at),
                "value": feed_usd(reading.value) if reading is not None and reading.value > 0 else None,
                "recorded": reading is not None,
                "txHash": None if reading is None else hex_of(reading.tx),
                "txUrl": None if reading is None else links.tx(reading.tx),
            }
        )
    return rows


def rules(market: ListedMarket, links: Links) -> Json:
    threshold = usd_label(market.spec.target) if market.kind is MarketKind.THRESHOLD else None
    return {
        "source": source(market),
        "sourceUrl": source_url(market, links),
        "metric": market.metric,
        "comparator": {MarketKind.THRESHOLD: ">=", MarketKind.DIRECTION: ">"}.get(market.kind),
        "thresholdLabel": threshold,
        **times(market),
        "earlyResolvable": market.spec.early_resolvable,
        "description": " ".join(market.words.rules),
        "feedKind": feed_kind(market),
        "computedFrom": computed_from(market, links),
    }


def odds_history(market: ListedMarket, stakes: list[Stake]) -> list[Json]:
    """One point a bet: the price it left behind. `yesPct` is the first outcome's on a two-sided market."""
    points = []
    for each in stakes:
        yes = None
        if market.kind is not MarketKind.RANGE and each.price_after is not None:
            taken = each.price_after if each.outcome == 0 else WAD - each.price_after
            yes = percents((taken, WAD - taken))[0]
        key = None if each.outcome is None else market.outcomes[each.outcome].key
        points.append({"at": iso(each.at), "yesPct": yes, "outcomeKey": key, "sizeUsd": usd(each.amount)})
    return points


def observations(market: ListedMarket, rounds: list[FeedRound], links: Links) -> list[Json]:
    url = source_url(market, links)
    return [
        {
            "observedAt": iso(each.updated_at),
            "value": feed_usd(each.value) if each.value > 0 else None,
            "label": usd_label(each.value) if each.value > 0 else None,
            "sourceUrl": url,
            "txHash": hex_of(each.tx),
            "txUrl": links.tx(each.tx),
        }
        for each in rounds
    ]
