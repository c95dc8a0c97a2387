"""Every plain question to the API."""

from __future__ import annotations

from vpm_client import models
from vpm_client.call import PREFIX, Amount, Call, segment, texts


def markets(
    *,
    status: str | None = None,
    type: str | None = None,
    token: str | None = None,
    ids: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[models.AgentMarkets]:
    return Call(
        "GET",
        f"{PREFIX}/markets",
        models.AgentMarkets,
        texts(status=status, type=type, token=token, ids=ids, limit=limit, cursor=cursor),
    )


def market(id: str) -> Call[models.AgentOneMarket]:
    return Call("GET", f"{PREFIX}/markets/{segment(id)}", models.AgentOneMarket)


def research(id: str) -> Call[models.AgentResearchAnswer]:
    return Call("GET", f"{PREFIX}/markets/{segment(id)}/research", models.AgentResearchAnswer)


def discover(
    *, q: str | None = None, post: str | None = None, limit: int | None = None
) -> Call[models.AgentDiscoverAnswer]:
    return Call("GET", f"{PREFIX}/discover", models.AgentDiscoverAnswer, texts(q=q, post=post, limit=limit))


def sentiment(token: str) -> Call[models.AgentSentimentAnswer]:
    return Call("GET", f"{PREFIX}/sentiment", models.AgentSentimentAnswer, texts(token=token))


def quote(
    market_id: str, *, side: str | None = None, size_usd: Amount | None = None, wallet: str | None = None
) -> Call[models.AgentQuoteAnswer]:
    return Call(
        "GET",
        f"{PREFIX}/quote",
        models.AgentQuoteAnswer,
        texts(marketId=market_id, side=side, sizeUsd=size_usd, wallet=wallet),
    )


def positions(
    *, wallet: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[models.AgentPositionsAnswer]:
    return Call(
        "GET", f"{PREFIX}/positions", models.AgentPositionsAnswer, texts(wallet=wallet, limit=limit, cursor=cursor)
    )


def result(market_id: str) -> Call[models.AgentResultAnswer]:
    return Call("GET", f"{PREFIX}/result", models.AgentResultAnswer, texts(marketId=market_id))


def proof(trade_id: str) -> Call[models.AgentTradeProofAnswer]:
    return Call("GET", f"{PREFIX}/proof/{segment(trade_id)}", models.AgentTradeProofAnswer)


def readiness(address: str) -> Call[models.AgentReadinessAnswer]:
    return Call("GET", f"{PREFIX}/wallet/{segment(address)}/readiness", models.AgentReadinessAnswer)


def stats() -> Call[models.AgentStatsAnswer]:
    return Call("GET", f"{PREFIX}/stats", models.AgentStatsAnswer)


def health() -> Call[models.AgentHealthAnswer]:
    return Call("GET", f"{PREFIX}/health", models.AgentHealthAnswer)


def getting_started() -> Call[models.AgentGettingStarted]:
    return Call("GET", f"{PREFIX}/getting-started", models.AgentGettingStarted)


def replay(
    *, wallet: str | None = None, from_seq: int | None = None, limit: int | None = None
) -> Call[models.AgentReplayAnswer]:
    return Call(
        "GET", f"{PREFIX}/events/replay", models.AgentReplayAnswer, texts(wallet=wallet, fromSeq=from_seq, limit=limit)
    )


def resolved(
    *, wallet: str | None = None, since: str | None = None, limit: int | None = None
) -> Call[models.AgentResolvedAnswer]:
    return Call("GET", f"{PREFIX}/resolved", models.AgentResolvedAnswer, texts(wallet=wallet, since=since, limit=limit))


def webhook(id: str) -> Call[models.AgentWebhookAnswer]:
    return Call("GET", f"{PREFIX}/webhooks/{segment(id)}", models.AgentWebhookAnswer)


def delete_webhook(id: str) -> Call[models.AgentDeletedAnswer]:
    return Call("DELETE", f"{PREFIX}/webhooks/{segment(id)}", models.AgentDeletedAnswer)


def test_webhook(id: str) -> Call[models.AgentTestAnswer]:
    return Call("POST", f"{PREFIX}/webhooks/{segment(id)}/test", models.AgentTestAnswer)
