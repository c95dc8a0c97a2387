"""Facts as the bodies of the agent surface. Pure: money is exact JSON numbers, divisions round down unless named.

Cents have at most 4 decimals, shares and dollars 6, percentages 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from api.agent import outlook
from api.agent.facts import BookTotals, Ending, FeedRound, ListedMarket, Stake, Venue, deciding_times
from api.agent.links import Links
from api.agent.outlook import Outlook
from core.agent.book import Book, Quote
from core.agent.fixed import WAD
from core.agent.words import FEED_DECIMALS, usd_label
from core.contracts.statuses import MarketKind
from core.hexadecimal import hex_of
from core.iso import iso
from core.money import USD, json_number, json_ratio_down, parts_of

Json = dict[str, Any]
Number = orjson.Fragment

CENT_DECIMALS = 4
PCT_DECIMALS = 4
DEFAULT_TICKET = 5 * USD
FEE_RECIPIENT = "Service treasury"
NETWORK = "base"
WON, LOST, REFUNDED, LIVE = "resolved-won", "resolved-lost", "resolved-refunded", "open"


def pct(numerator: int, denominator: int) -> Number:
    return json_ratio_down(100 * numerator, denominator, PCT_DECIMALS)


def percents(weights: Sequence[int]) -> list[Number]:
    """Together they are 100, to the last digit."""
    return [json_number(part, PCT_DECIMALS) for part in parts_of(100 * 10**PCT_DECIMALS, weights)]


def prices(book: Book) -> list[Number]:
    """Of each outcome in cents, which is percent."""
    return percents([book.weight(at) for at in range(book.outcomes)])


def usd(units: int) -> Number:
    return json_number(units)


def feed_usd(value: int) -> Number:
    return json_number(value, FEED_DECIMALS)


def average_cents(net: int, shares: int) -> Number:
    """What a share cost on average, fee apart; rounded down."""
    return json_ratio_down(100 * net, shares, CENT_DECIMALS) if shares else usd(0)


# ---------------------------------------------------------------- markets


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


# ---------------------------------------------------------------- quotes


def bought(market: ListedMarket, outcome: int, got: Quote) -> ListedMarket:
    """The market after a stake, for showing what the odds would be."""
    return replace(market, book=market.book.staked(outcome, got.amount)[0])


def least_shares(got: Quote) -> int:
    """What a bet may insist on and stand though a small one comes first: a hundredth under the quote, rounded down."""
    return got.shares * 99 // 100


def dearest_cents(got: Quote) -> int | None:
    """The same as an average price in whole cents, a hundredth over the quote and rounded up; None where 99, the most
    that a trade can name, would be less than that."""
    if not got.shares:
        return None
    cents = -(-101 * got.net // got.shares)
    return cents if cents <= 99 else None


def quote(
    market: ListedMarket,
    outcome: int,
    got: Quote,
    *,
    quote_id: str,
    expires_at: str,
    tier: str,
    ahead: Outlook,
    largest: int,
    venue: Venue,
    links: Links,
) -> Json:
    latest = venue.latest.get(market.feed)
    return {
        "marketId": market.id,
        **times(market),
        "side": market.outcomes[outcome].key,
        "sizeUsd": usd(got.amount),
        "tier": tier,
        "quoteId": quote_id,
        "expiresAt": expires_at,
        "bookVersion": market.version,
        "priceCents": average_cents(got.net, got.shares),
        "estimatedShares": usd(got.shares),
        "suggestedMinSharesOut": usd(least_shares(got)),
        "suggestedMaxPriceCents": dearest_cents(got),
        "feeBps": market.book.fee_bps,
        "feeUsd": usd(got.fee),
        "netStakeUsd": usd(got.net),
        "postTradeOdds": odds(bought(market, outcome, got)),
        "impactPct": pct(got.price_after - got.price_before, WAD),
        "largestSizeUsd": usd(largest),
        **ahead.body(),
        "ladder": ladder(market, latest),
        "tokenSnapshot": token_snapshot(market, latest, links),
        "stats": stats(market),
    }


# ---------------------------------------------------------------- research


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
        "maxQuietSeconds": computed.max_quiet,
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


# ---------------------------------------------------------------- positions, results, proofs


def position_status(market: ListedMarket, stake: Stake) -> str:
    if stake.outcome is None:
        return REFUNDED
    if market.ending is None:
        return LIVE
    if market.refunded():
        return REFUNDED
    return WON if stake.outcome == market.winner else LOST


def position(market: ListedMarket, stake: Stake, links: Links) -> tuple[Json, str, int]:
    """The body, its status, and profit or loss in units. One trade is one position."""
    status, ahead, worth = _standing(market, stake)
    if stake.outcome is None:
        now = json_number(0)
    elif status in (WON, LOST):
        now = json_number(100, 0) if status == WON else json_number(0)
    else:
        now = prices(market.book)[stake.outcome]
    pnl = worth - stake.amount
    side = None if stake.outcome is None else market.outcomes[stake.outcome]
    body = {
        "marketId": market.id,
        "slug": market.slug,
        "question": market.words.question,
        **times(market),
        "side": "refund" if side is None else side.key,
        "outcomeLabel": "Refund" if side is None else side.label,
        "shares": usd(stake.shares),
        "stakedUsd": usd(stake.amount),
        "avgEntryCents": average_cents(stake.net, stake.shares),
        "currentCents": now,
        "pnlUsd": usd(pnl),
        "maxPayoutUsd": usd(ahead.payout),
        "payoutUsd": None if status == LIVE else usd(worth),
        **ahead.body(),
        "status": status,
        "appUrl": links.app(market),
        "proofUrl": None if side is None else links.proof(stake.bet_hash),
        "filledAt": iso(stake.at),
        "payoutTx": None if stake.paid_tx is None else hex_of(stake.paid_tx),
        "tradeId": hex_of(stake.bet_hash),
    }
    return body, status, pnl


def _standing(market: ListedMarket, stake: Stake) -> tuple[str, Outlook, int]:
    """Its status, what it would be or is paid, and what it is worth in units."""
    status = position_status(market, stake)
    if stake.outcome is None:  # a payment that came too late: given back whole, never in the book
        return status, Outlook(stake.amount, 0), stake.amount
    ahead = outlook.of_position(market, stake, stake.outcome)
    if status == LIVE:
        return status, ahead, ahead.payout * market.book.price(stake.outcome) // WAD  # down
    worth = market.book.owed(market.winner, stake.outcome, stake.amount, stake.shares)
    return status, Outlook(worth, stake.shares) if status == REFUNDED else ahead, worth


class PositionSums:
    """The sums over a wallet's positions."""

    def __init__(self) -> None:
        self._live = self._over = self._staked = self._profit = 0

    def add(self, stakes: Iterable[Stake], markets: Mapping[bytes, ListedMarket]) -> None:
        for each in stakes:
            market = markets.get(each.market_key)
            if market is None:
                continue
            status, _, worth = _standing(market, each)
            self._live += status == LIVE
            self._over += status != LIVE
            self._staked += each.amount
            self._profit += worth - each.amount

    def body(self) -> Json:
        return {
            "openCount": self._live,
            "resolvedCount": self._over,
            "totalStakedUsd": usd(self._staked),
            "totalPnlUsd": usd(self._profit),
        }


def result(market: ListedMarket, links: Links) -> Json:
    """A void market is resolved with outcome `void`: every stake is given back whole."""
    ending, book = market.ending, market.book
    won = None if ending is None or ending.winner is None else market.outcomes[ending.winner]
    winners = 0 if ending is None or ending.winner is None else book.shares[ending.winner]
    start, end = (None, None) if ending is None else (_reading(ending.start_answer), _reading(ending.end_answer))
    share = None if ending is None else outlook.share_payout(book, ending.winner)
    return {
        "marketId": market.id,
        **times(market),
        "status": "pending" if ending is None else "resolved",
        "resolvedOutcome": None if ending is None else "void" if won is None else won.key,
        "resolvedOutcomeLabel": None if ending is None else "Void, stakes refunded" if won is None else won.label,
        "resolvedAt": None if ending is None else iso(ending.at),
        "source": source(market),
        "sourceUrl": source_url(market, links),
        "observedMarketCapUsd": end if market.kind is not MarketKind.DIRECTION else None,
        "startReadingUsd": start,
        "endReadingUsd": end,
        "payoutPerShareUsd": None if share is None else json_ratio_down(*share, 6),
        "poolUsd": usd(book.net_pool),
        "winningShares": usd(winners),
        "proofUrl": None if ending is None else links.tx(ending.tx),
        "refunded": market.refunded(),
        "txHash": None if ending is None else hex_of(ending.tx),
    }


def _reading(answer: int | None) -> Number | None:
    return None if answer is None else feed_usd(answer)


def receipt(market: ListedMarket, stake: Stake, totals: BookTotals, links: Links) -> Json:
    """The receipt of a settled trade: of what is on chain and nothing else, so a rebuilt database gives the same.

    totals: what stood on each outcome right after it.
    """
    assert stake.outcome is not None
    return {
        "tradeId": hex_of(stake.bet_hash),
        "marketId": market.id,
        "side": market.outcomes[stake.outcome].key,
        "sizeUsd": usd(stake.amount),
        "simulated": False,
        "txHash": hex_of(stake.tx),
        "explorerUrl": links.tx(stake.tx),
        "intentHash": hex_of(stake.bet_hash),
        "builderCode": stake.builder,
        "position": {"shares": usd(stake.shares), "avgPriceCents": average_cents(stake.net, stake.shares)},
        **times(market),
        **outlook.of_placed(market, stake, stake.outcome, totals).body(),
        "proofUrl": links.proof(stake.bet_hash),
        "recordedAt": iso(stake.at),
    }


def proof(market: ListedMarket, stake: Stake, links: Links, now: int, status: str) -> Json:
    assert stake.outcome is not None
    ref = stake.ref_text
    return {
        "tradeId": hex_of(stake.bet_hash),
        "market": market_facts(market, links, now),
        "position": {
            "userId": f"agent:{stake.wallet}",
            "walletAddress": stake.wallet,
            "side": market.outcomes[stake.outcome].key,
            "shares": usd(stake.shares),
            "priceCents": average_cents(stake.net, stake.shares),
            "sizeUsd": usd(stake.amount),
            "feeUsd": usd(stake.fee),
        },
        "settlement": {
            "txHash": hex_of(stake.tx),
            "explorerUrl": links.tx(stake.tx) or "",
            "status": status,
            "network": NETWORK,
            "settledAt": iso(stake.at),
            "contract": links.settlement,
            "stakeId": str(stake.id),
            "blockNumber": stake.block,
        },
        "attribution": {
            "source": ref,
            "mentionId": ref.removeprefix("mention:") if ref is not None and ref.startswith("mention:") else None,
            "ref": ref,
            "builderCode": stake.builder,
        },
    }
