"""Every plain question to the API. A `wallet` left out is the client's own."""

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
    """List tradeable markets."""
    return Call(
        "GET",
        f"{PREFIX}/markets",
        models.AgentMarkets,
        texts(status=status, type=type, token=token, ids=ids, limit=limit, cursor=cursor),
    )


def market(id: str) -> Call[models.AgentOneMarket]:
    """One market."""
    return Call("GET", f"{PREFIX}/markets/{segment(id)}", models.AgentOneMarket)


def research(id: str) -> Call[models.AgentResearchAnswer]:
    """Research bundle."""
    return Call("GET", f"{PREFIX}/markets/{segment(id)}/research", models.AgentResearchAnswer)


def discover(
    *, q: str | None = None, post: str | None = None, limit: int | None = None
) -> Call[models.AgentDiscoverAnswer]:
    """Find markets by free text or by a social post."""
    return Call("GET", f"{PREFIX}/discover", models.AgentDiscoverAnswer, texts(q=q, post=post, limit=limit))


def sentiment(token: str) -> Call[models.AgentSentimentAnswer]:
    """What the crowd thinks of a token."""
    return Call("GET", f"{PREFIX}/sentiment", models.AgentSentimentAnswer, texts(token=token))


def quote(
    market_id: str, *, side: str | None = None, size_usd: Amount | None = None, wallet: str | None = None
) -> Call[models.AgentQuoteAnswer]:
    """Price a bet."""
    return Call(
        "GET",
        f"{PREFIX}/quote",
        models.AgentQuoteAnswer,
        texts(marketId=market_id, side=side, sizeUsd=size_usd, wallet=wallet),
        of_wallet=True,
    )


def positions(
    *, wallet: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[models.AgentPositionsAnswer]:
    """A wallet's positions, newest first."""
    return Call(
        "GET",
        f"{PREFIX}/positions",
        models.AgentPositionsAnswer,
        texts(wallet=wallet, limit=limit, cursor=cursor),
        of_wallet=True,
    )


def result(market_id: str) -> Call[models.AgentResultAnswer]:
    """How a market resolved."""
    return Call("GET", f"{PREFIX}/result", models.AgentResultAnswer, texts(marketId=market_id))


def proof(trade_id: str) -> Call[models.AgentTradeProofAnswer]:
    """Settlement proof of a trade."""
    return Call("GET", f"{PREFIX}/proof/{segment(trade_id)}", models.AgentTradeProofAnswer)


def readiness(address: str) -> Call[models.AgentReadinessAnswer]:
    """Can this wallet bet?"""
    return Call("GET", f"{PREFIX}/wallet/{segment(address)}/readiness", models.AgentReadinessAnswer)


def stats() -> Call[models.AgentStatsAnswer]:
    """Platform statistics."""
    return Call("GET", f"{PREFIX}/stats", models.AgentStatsAnswer)


def health() -> Call[models.AgentHealthAnswer]:
    """Liveness and trading status."""
    return Call("GET", f"{PREFIX}/health", models.AgentHealthAnswer)


def getting_started() -> Call[models.AgentGettingStarted]:
    """Onboarding in six steps."""
    return Call("GET", f"{PREFIX}/getting-started", models.AgentGettingStarted)


def replay(
    *, wallet: str | None = None, from_seq: int | None = None, limit: int | None = None
) -> Call[models.AgentReplayAnswer]:
    """A wallet's events in order."""
    return Call(
        "GET",
        f"{PREFIX}/events/replay",
        models.AgentReplayAnswer,
        texts(wallet=wallet, fromSeq=from_seq, limit=limit),
        of_wallet=True,
    )


def resolved(
    *, wallet: str | None = None, since: str | None = None, limit: int | None = None
) -> Call[models.AgentResolvedAnswer]:
    """How a wallet's markets ended."""
    return Call(
        "GET",
        f"{PREFIX}/resolved",
        models.AgentResolvedAnswer,
        texts(wallet=wallet, since=since, limit=limit),
        of_wallet=True,
    )


def webhook(id: str) -> Call[models.AgentWebhookAnswer]:
    """How a webhook stands."""
    return Call("GET", f"{PREFIX}/webhooks/{segment(id)}", models.AgentWebhookAnswer)


def delete_webhook(id: str) -> Call[models.AgentDeletedAnswer]:
    """Remove a webhook."""
    return Call("DELETE", f"{PREFIX}/webhooks/{segment(id)}", models.AgentDeletedAnswer)


def test_webhook(id: str) -> Call[models.AgentTestAnswer]:
    """Send a test event."""
    return Call("POST", f"{PREFIX}/webhooks/{segment(id)}/test", models.AgentTestAnswer)
