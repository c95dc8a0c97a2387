"""The API's operations that are a single request. By default, `wallet` is the client's own."""

from __future__ import annotations

from vpm_client import models
from vpm_client.call import PREFIX, Amount, Call, get, path_segment


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
    return get(
        "/markets", models.AgentMarkets, status=status, type=type, token=token, ids=ids, limit=limit, cursor=cursor
    )


def market(id: str) -> Call[models.AgentOneMarket]:
    return get(f"/markets/{path_segment(id)}", models.AgentOneMarket)


def research(id: str) -> Call[models.AgentResearchAnswer]:
    """Return a market's rules, odds history and readings."""
    return get(f"/markets/{path_segment(id)}/research", models.AgentResearchAnswer)


def discover(
    *, q: str | None = None, post: str | None = None, limit: int | None = None
) -> Call[models.AgentDiscoverAnswer]:
    """Find markets by free text or by a social post."""
    return get("/discover", models.AgentDiscoverAnswer, q=q, post=post, limit=limit)


def sentiment(token: str) -> Call[models.AgentSentimentAnswer]:
    """Return the crowd's view of a token."""
    return get("/sentiment", models.AgentSentimentAnswer, token=token)


def quote(
    market_id: str, *, side: str | None = None, size_usd: Amount | None = None, wallet: str | None = None
) -> Call[models.AgentQuoteAnswer]:
    return get(
        "/quote",
        models.AgentQuoteAnswer,
        of_wallet=True,
        marketId=market_id,
        side=side,
        sizeUsd=size_usd,
        wallet=wallet,
    )


def positions(
    *, wallet: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[models.AgentPositionsAnswer]:
    """List a wallet's positions, newest first."""
    return get("/positions", models.AgentPositionsAnswer, of_wallet=True, wallet=wallet, limit=limit, cursor=cursor)


def result(market_id: str) -> Call[models.AgentResultAnswer]:
    return get("/result", models.AgentResultAnswer, marketId=market_id)


def proof(trade_id: str) -> Call[models.AgentTradeProofAnswer]:
    """Return the settlement proof of a trade."""
    return get(f"/proof/{path_segment(trade_id)}", models.AgentTradeProofAnswer)


def readiness(address: str) -> Call[models.AgentReadinessAnswer]:
    """Check whether a wallet can bet."""
    return get(f"/wallet/{path_segment(address)}/readiness", models.AgentReadinessAnswer)


def stats() -> Call[models.AgentStatsAnswer]:
    return get("/stats", models.AgentStatsAnswer)


def health() -> Call[models.AgentHealthAnswer]:
    """Return whether the service is up and accepts bets."""
    return get("/health", models.AgentHealthAnswer)


def getting_started() -> Call[models.AgentGettingStarted]:
    """Return a guide to the first bet, in six steps."""
    return get("/getting-started", models.AgentGettingStarted)


def replay(
    *, wallet: str | None = None, from_seq: int | None = None, limit: int | None = None
) -> Call[models.AgentReplayAnswer]:
    """List a wallet's events in order."""
    return get("/events/replay", models.AgentReplayAnswer, of_wallet=True, wallet=wallet, fromSeq=from_seq, limit=limit)


def resolved(
    *, wallet: str | None = None, since: str | None = None, limit: int | None = None
) -> Call[models.AgentResolvedAnswer]:
    """List the results of a wallet's markets."""
    return get("/resolved", models.AgentResolvedAnswer, of_wallet=True, wallet=wallet, since=since, limit=limit)


def webhook(id: str) -> Call[models.AgentWebhookAnswer]:
    return get(f"/webhooks/{path_segment(id)}", models.AgentWebhookAnswer)


def delete_webhook(id: str) -> Call[models.AgentDeletedAnswer]:
    return Call("DELETE", f"{PREFIX}/webhooks/{path_segment(id)}", models.AgentDeletedAnswer)


def test_webhook(id: str) -> Call[models.AgentTestAnswer]:
    return Call("POST", f"{PREFIX}/webhooks/{path_segment(id)}/test", models.AgentTestAnswer)
