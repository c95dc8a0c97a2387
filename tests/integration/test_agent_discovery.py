"""Discovery and sentiment over HTTP: whole bodies against their documented models, on markets with real bets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from api.agent.discovery import DiscoverBody
from api.agent.sentiment import SentimentBody
from api.operations import Body
from core.money import loads
from scripts._stack import wallets
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet

DEV = wallets.DEV
BOUNDS = [50_000_000 * 10**8, 100_000_000 * 10**8]


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    chain = base_service.chain
    chain.observe(80_000_000 * 10**8)
    now = chain.now
    chain.list("bnkr-100m", feed="BNKR/market_cap")
    chain.list("bnkr-range", feed="BNKR/market_cap", kind=1, bounds=BOUNDS, closes_at=now + 90_000)
    chain.list("bnkr-updown", feed="BNKR/market_cap", kind=2, closes_at=now + 80_000)
    for at in range(55):
        chain.list(f"aixbt-{at}", feed="AIXBT/market_cap", target=7_000_000 * 10**8, closes_at=now + 100_000 + at)
    base_service.start("indexer", "relayer", "api")
    return base_service


async def asked(buyer: Buyer, path: str, model: type[Body], **query: str) -> Any:
    """Return the body with exact numbers, after checking it against its model; only `reason` may be absent."""
    async with buyer.session.get(buyer.service.api + path, params=query) as response:
        raw = await response.read()
        assert response.status == 200, raw
        assert response.content_type == "application/json"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    body = loads(raw)
    msgspec.json.decode(raw, type=model)
    required = set(model.__struct_encode_fields__) - {"reason"}
    assert required <= set(body)
    return body


async def ids(buyer: Buyer, **query: str) -> list[str]:
    body = await asked(buyer, "/discover", DiscoverBody, **query)
    assert body["count"] == len(body["matches"])
    return [buyer.service.chain.names[each["market"]["id"]] for each in body["matches"]]


async def refused(buyer: Buyer, path: str, status: int, **query: object) -> dict[str, Any]:
    response, body = await buyer.get(path, **query)
    assert response.status == status, body
    assert {"error", "message", "hint", "docsUrl", "retriable", "requestId"} <= set(body)
    assert (body["error"], body["retriable"]) == ("invalid_request", False)
    assert body["issues"]
    return dict(body)


async def test_discover(buyer: Buyer) -> None:
    body = await asked(buyer, "/discover", DiscoverBody, q="$bnkr")
    assert (body["query"], body["silent"], body["count"]) == ("$bnkr", False, 3)
    assert "reason" not in body
    one = (await buyer.get("/markets/bnkr-100m"))[1]["market"]
    names = buyer.service.chain.names
    match = next(each for each in body["matches"] if names[each["market"]["id"]] == "bnkr-100m")
    assert set(one) - {"stats"} == set(match["market"])
    assert match["market"]["question"].startswith("Will BNKR's market cap be $100M or more on ")
    assert match["matchKind"] == "exact"
    assert match["score"] >= 1_000
    assert match["matchedCashtags"] == ["BNKR"]
    assert match["matchedTerms"] == ["bnkr"]
    assert match["reason"] == "cashtag $BNKR"
    related = (await asked(buyer, "/discover", DiscoverBody, q="100 million"))["matches"]
    assert [names[each["market"]["id"]] for each in related] == ["bnkr-100m"]
    assert related[0]["matchKind"] == "related"
    assert 0 < related[0]["score"] < 1
    assert related[0]["matchedTerms"] == ["100m"]


async def test_posts(buyer: Buyer) -> None:
    found = await asked(buyer, "/discover", DiscoverBody, post="will $BNKR pump tomorrow?")
    assert (found["query"], found["silent"], found["count"]) == (None, False, 3)
    for post, reason in (
        ("gm fam", "greeting"),
        ("$BNKR hit 100M yesterday", "settled_fact"),
        ("claim your airdrop", "scam"),
        ("nice cat", "no_claim"),
    ):
        quiet = await asked(buyer, "/discover", DiscoverBody, post=post)
        assert (quiet["silent"], quiet["reason"], quiet["count"], quiet["matches"]) == (True, reason, 0, [])
    # The gate reads the post, the query is ranked.
    both = await asked(buyer, "/discover", DiscoverBody, q="100m", post="will it?")
    assert both["query"] == "100m"
    assert [buyer.service.chain.names[each["market"]["id"]] for each in both["matches"]] == ["bnkr-100m"]
    assert (await asked(buyer, "/discover", DiscoverBody, q="$BNKR", post="gm"))["silent"] is True


async def test_limits(buyer: Buyer) -> None:
    assert len(await ids(buyer, q="$AIXBT")) == 12
    assert len(await ids(buyer, q="$AIXBT", limit="50")) == 50
    # Equal pools: the earlier deadline first.
    assert await ids(buyer, q="$AIXBT", limit="3") == ["aixbt-0", "aixbt-1", "aixbt-2"]
    for limit in ("0", "51", "-1", "x", "1.5", ""):
        await refused(buyer, "/discover", 400, q="$AIXBT", limit=limit)
    await refused(buyer, "/discover", 400, q="x" * 501)
    await refused(buyer, "/discover", 400, post="x" * 4_001)


async def test_bets_move_browsing_and_sentiment(buyer: Buyer, service: AgentService) -> None:
    first = await asked(buyer, "/sentiment", SentimentBody, token="BNKR")
    for market, who, side, size in (
        ("bnkr-100m", 1, "yes", 10),
        ("bnkr-100m", 2, "yes", 4),
        ("bnkr-updown", 2, "up", 6),
        ("bnkr-updown", 3, "up", 5),
    ):
        response, body = await buyer.buy(bet(market, DEV[who], side, size), DEV[who])
        assert response.status == 200, body
    assert (await ids(buyer, limit="3")) == ["bnkr-100m", "bnkr-updown", "bnkr-range"]
    browse = (await asked(buyer, "/discover", DiscoverBody, q="  "))["matches"]
    assert len(browse) == 12
    assert {each["reason"] for each in browse} == {"browse"}

    intel = (await asked(buyer, "/sentiment", SentimentBody, token="$bnkr"))["intel"]
    assert intel["activity"]["totalBets"] == first["intel"]["activity"]["totalBets"] + 4
    assert intel["quality"]["distinctBettors"] == 3
    # Wallets 1 and 2 staked 10 of 25 each.
    assert (intel["quality"]["topWalletPct"], intel["quality"]["label"]) == (40, "mixed")
    assert intel["sentiment"]["directionalBettors"] == 3
    assert intel["sentiment"]["confidence"] == "low"
    assert intel["sentiment"]["score"] > 50
    assert service.chain.names[intel["suggestedBet"]["marketId"]] == "bnkr-100m"
    assert (intel["suggestedBet"]["side"], intel["suggestedBet"]["sideLabel"]) == ("yes", "YES")


async def test_a_token_without_markets_is_not_an_error(buyer: Buyer) -> None:
    intel = (await asked(buyer, "/sentiment", SentimentBody, token="<b>$x"))["intel"]
    assert (intel["hasSignal"], intel["marketCount"], intel["markets"]) == (False, 0, [])
    assert intel["topMarket"] is intel["suggestedBet"] is None
    assert intel["sentiment"] == {
        "score": 50,
        "lean": 0,
        "label": "neutral",
        "basis": "none",
        "confidence": "none",
        "directionalMarketCount": 0,
        "directionalPoolUsd": 0,
        "directionalBettors": 0,
    }
    assert intel["quality"] == {"distinctBettors": 0, "topWalletPct": 0, "label": "none"}


async def test_sentiment_without_a_token_is_422(buyer: Buyer) -> None:
    for query in ({}, {"token": ""}, {"token": "$"}, {"token": "two words"}, {"token": "x" * 33}):
        body = await refused(buyer, "/sentiment", 422, **query)
        assert body["issues"][0]["field"] == "token"
