"""A market: its facts, its odds and how it stands."""

from __future__ import annotations

from api.agent.facts import Ending, FeedRound, ListedMarket, Venue
from api.agent.links import Links
from api.agent.render.numbers import feed_usd, pct, percents, prices, usd
from api.http.body import Json
from core.contracts.statuses import MarketKind
from core.hexadecimal import hex_of
from core.iso import iso
from core.money import USD

DEFAULT_TICKET = 5 * USD
FEE_RECIPIENT = "Service treasury"
NETWORK = "base"


def outcomes(market: ListedMarket) -> list[Json]:
    window: Json = {}
    if market.kind is MarketKind.DIRECTION:
        window = {"startAt": iso(market.spec.start_at), "endAt": iso(market.spec.ends_at)}
    return [
        {
            "key": each.key,
            "label": each.label,
            "shortLabel": each.short_label,
            "lowerUsd": None if each.lower is None else feed_usd(each.lower),
            "upperUsd": None if each.upper is None else feed_usd(each.upper),
            "priorPct": prior,
            **window,
        }
        for each, prior in zip(market.outcomes, percents(market.book.weights), strict=True)
    ]


def times(market: ListedMarket) -> Json:
    """When stakes end, what is measured when, and when it is settled; wherever a market is shown."""
    return {
        "deadlineAt": iso(market.closes_at),
        "startAt": iso(market.spec.start_at) if market.kind is MarketKind.DIRECTION else None,
        "endsAt": iso(market.spec.ends_at),
        "settlesAfter": iso(market.spec.settles_after),
    }


def odds(market: ListedMarket) -> Json:
    """Prices of the two sides. A market of more outcomes has none, its outcomes show them; nor has one that is over,
    its result stands instead."""
    if market.kind is MarketKind.RANGE or market.ending is not None:
        return {"yesPriceCents": None, "noPriceCents": None}
    yes, no = prices(market.book)
    return {"yesPriceCents": yes, "noPriceCents": no}


def market_facts(market: ListedMarket, links: Links, now: int) -> Json:
    """The fields of a market reference that a proof shows too: nothing that moves with every bet."""
    return {
        "id": market.id,
        "slug": market.slug,
        "question": market.words.question,
        "shortTitle": market.words.short_title,
        "summary": market.words.summary,
        "category": market.metric,
        "tokenSymbol": market.token_symbol,
        "chainId": NETWORK,
        **times(market),
        "deadlineLabel": market.words.deadline_label,
        "status": market.status(now),
        "feeBps": market.book.fee_bps,
        "feeRecipientLabel": FEE_RECIPIENT,
        "defaultTicketUsd": usd(DEFAULT_TICKET),
        "virtualLiquidityUsd": usd(sum(market.book.weights)),
        "potCapUsd": usd(market.pot_cap),
        "targetMarketCapUsd": feed_usd(market.spec.target) if market.kind is MarketKind.THRESHOLD else None,
        "outcomes": outcomes(market),
        "headline": None,
        "links": {
            "app": links.app(market),
            "quote": f"{links.api}/quote?marketId={market.id}",
            "trade": f"{links.api}/trade",
            "research": f"{links.api}/markets/{market.id}/research",
        },
        "series": market.metadata.series or None if market.supported and market.metadata is not None else None,
        "references": dict(market.metadata.links) if market.supported and market.metadata is not None else {},
        "settlement": {"contract": links.settlement, "marketKey": hex_of(market.key)},
    }


def market_ref(market: ListedMarket, venue: Venue, links: Links) -> Json:
    return {
        **market_facts(market, links, venue.now),
        "outcomes": [
            {**each, "impliedPct": None if market.ending is not None else price}
            for each, price in zip(outcomes(market), prices(market.book), strict=True)
        ],
        "volumeUsd": usd(market.volume),
        "totalBets": market.bets,
        "volume24hUsd": usd(venue.volume_24h.get(market.key, 0)),
        "odds": None if market.ending is not None else odds(market),
        "result": None if market.ending is None else ended(market, market.ending),
        "opensAt": iso(market.spec.opens_at) if market.opens_later(venue.now) else None,
    }


def ended(market: ListedMarket, ending: Ending) -> Json:
    """How a market ended, in short; `GET /result` has it whole."""
    won = None if ending.winner is None else market.outcomes[ending.winner]
    return {
        "outcome": "void" if won is None else won.key,
        "label": "Void, stakes refunded" if won is None else won.label,
        "resolvedAt": iso(ending.at),
        "refunded": market.refunded(),
    }


def stats(market: ListedMarket) -> Json:
    """Pools are net of fees. On a market of more than two outcomes `yes` is the leading one and `no` all others."""
    net = market.book.net
    yes = max(net) if market.kind is MarketKind.RANGE else net[0]
    return {
        "totalBets": market.bets,
        "totalPoolUsd": usd(sum(net)),
        "yesPoolUsd": usd(yes),
        "noPoolUsd": usd(sum(net) - yes),
        "feeUsd": usd(market.volume - sum(net)),
    }


def ladder(market: ListedMarket, latest: FeedRound | None) -> Json | None:
    if market.kind is not MarketKind.RANGE:
        return None
    current = None if latest is None else sum(latest.value >= bound for bound in market.spec.bounds)
    rungs = [
        {
            "startAt": None,
            "endAt": None,
            **each,
            "impliedPct": price,
            "backedUsd": usd(market.book.net[at]),
            "isCurrent": at == current,
        }
        for at, (each, price) in enumerate(zip(outcomes(market), prices(market.book), strict=True))
    ]
    return {
        "outcomes": rungs,
        "currentBucketKey": None if current is None else market.outcomes[current].key,
        "currentMarketCapUsd": None if latest is None else feed_usd(latest.value),
        "totalBackedUsd": usd(market.book.net_pool),
    }


def token_snapshot(market: ListedMarket, latest: FeedRound | None, links: Links) -> Json | None:
    """Where the token stands against the target; only markets with one target have it."""
    if market.kind is not MarketKind.THRESHOLD or latest is None or latest.value <= 0:
        return None
    return {
        "tokenSymbol": market.token_symbol,
        "currentMarketCapUsd": feed_usd(latest.value),
        "currentPriceUsd": None,
        "targetMarketCapUsd": feed_usd(market.spec.target),
        # How far it still has to rise, in percent of where it is; negative once it is above.
        "distanceToTargetPct": pct(market.spec.target - latest.value, latest.value),
        "reachedTarget": latest.value >= market.spec.target,
        "source": source(market),
        "sourceUrl": source_url(market, links) or links.app(market),
        "observedAt": iso(latest.updated_at),
    }


def source(market: ListedMarket) -> str:
    return market.words.source


def source_url(market: ListedMarket, links: Links) -> str | None:
    return links.address(market.feed)
