"""Every plain question to the API.

Made by `python -m tests.support.client_models`; not to be edited.
"""

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
) -> Call[models.Markets]:
    return Call(
        "GET",
        f"{PREFIX}/markets",
        models.Markets,
        texts(status=status, type=type, token=token, ids=ids, limit=limit, cursor=cursor),
    )


def market(id: str) -> Call[models.OneMarket]:
    return Call("GET", f"{PREFIX}/markets/{segment(id)}", models.OneMarket)


def research(id: str) -> Call[models.ResearchBody]:
    return Call("GET", f"{PREFIX}/markets/{segment(id)}/research", models.ResearchBody)


def discover(*, q: str | None = None, post: str | None = None, limit: int | None = None) -> Call[models.DiscoverBody]:
    return Call("GET", f"{PREFIX}/discover", models.DiscoverBody, texts(q=q, post=post, limit=limit))


def sentiment(token: str) -> Call[models.SentimentBody]:
    return Call("GET", f"{PREFIX}/sentiment", models.SentimentBody, texts(token=token))


def quote(
    market_id: str, *, side: str | None = None, size_usd: Amount | None = None, wallet: str | None = None
) -> Call[models.QuoteBody]:
    return Call(
        "GET",
        f"{PREFIX}/quote",
        models.QuoteBody,
        texts(marketId=market_id, side=side, sizeUsd=size_usd, wallet=wallet),
    )


def positions(
    *, wallet: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[models.PositionsBody]:
    return Call("GET", f"{PREFIX}/positions", models.PositionsBody, texts(wallet=wallet, limit=limit, cursor=cursor))


def result(market_id: str) -> Call[models.ResultBody]:
    return Call("GET", f"{PREFIX}/result", models.ResultBody, texts(marketId=market_id))


def proof(trade_id: str) -> Call[models.TradeProofBody]:
    return Call("GET", f"{PREFIX}/proof/{segment(trade_id)}", models.TradeProofBody)


def readiness(address: str) -> Call[models.ReadinessBody]:
    return Call("GET", f"{PREFIX}/wallet/{segment(address)}/readiness", models.ReadinessBody)


def stats() -> Call[models.StatsBody]:
    return Call("GET", f"{PREFIX}/stats", models.StatsBody)


def health() -> Call[models.HealthBody]:
    return Call("GET", f"{PREFIX}/health", models.HealthBody)


def getting_started() -> Call[models.GettingStarted]:
    return Call("GET", f"{PREFIX}/getting-started", models.GettingStarted)


def replay(
    *, wallet: str | None = None, from_seq: int | None = None, limit: int | None = None
) -> Call[models.ReplayBody]:
    return Call(
        "GET", f"{PREFIX}/events/replay", models.ReplayBody, texts(wallet=wallet, fromSeq=from_seq, limit=limit)
    )


def resolved(
    *, wallet: str | None = None, since: str | None = None, limit: int | None = None
) -> Call[models.ResolvedBody]:
    return Call("GET", f"{PREFIX}/resolved", models.ResolvedBody, texts(wallet=wallet, since=since, limit=limit))


def webhook(id: str) -> Call[models.WebhookBody]:
    return Call("GET", f"{PREFIX}/webhooks/{segment(id)}", models.WebhookBody)


def delete_webhook(id: str) -> Call[models.DeletedBody]:
    return Call("DELETE", f"{PREFIX}/webhooks/{segment(id)}", models.DeletedBody)


def test_webhook(id: str) -> Call[models.TestBody]:
    return Call("POST", f"{PREFIX}/webhooks/{segment(id)}/test", models.TestBody)
