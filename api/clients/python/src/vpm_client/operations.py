"""Every plain question to the API, as a method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from vpm_client import calls, models
from vpm_client.call import Amount, Call
from vpm_client.shared import Settings

T = TypeVar("T")


class Operations(ABC):
    """The reads and the smaller writes. A `wallet` left out is the client's own."""

    _settings: Settings

    @abstractmethod
    def _call(self, call: Call[T]) -> T:
        """The answer to a call."""

    def markets(
        self,
        *,
        status: str | None = None,
        type: str | None = None,
        token: str | None = None,
        ids: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.AgentMarkets:
        """List tradeable markets."""
        return self._call(calls.markets(status=status, type=type, token=token, ids=ids, limit=limit, cursor=cursor))

    def market(self, id: str) -> models.AgentOneMarket:
        """One market."""
        return self._call(calls.market(id))

    def research(self, id: str) -> models.AgentResearchAnswer:
        """Research bundle."""
        return self._call(calls.research(id))

    def discover(
        self, *, q: str | None = None, post: str | None = None, limit: int | None = None
    ) -> models.AgentDiscoverAnswer:
        """Find markets by free text or by a social post."""
        return self._call(calls.discover(q=q, post=post, limit=limit))

    def sentiment(self, token: str) -> models.AgentSentimentAnswer:
        """What the crowd thinks of a token."""
        return self._call(calls.sentiment(token))

    def quote(
        self, market_id: str, *, side: str | None = None, size_usd: Amount | None = None, wallet: str | None = None
    ) -> models.AgentQuoteAnswer:
        """Price a bet."""
        return self._call(calls.quote(market_id, side=side, size_usd=size_usd, wallet=self._settings.own(wallet)))

    def positions(
        self, *, wallet: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> models.AgentPositionsAnswer:
        """A wallet's positions, newest first."""
        return self._call(calls.positions(wallet=self._settings.own(wallet), limit=limit, cursor=cursor))

    def result(self, market_id: str) -> models.AgentResultAnswer:
        """How a market resolved."""
        return self._call(calls.result(market_id))

    def proof(self, trade_id: str) -> models.AgentTradeProofAnswer:
        """Settlement proof of a trade."""
        return self._call(calls.proof(trade_id))

    def readiness(self, address: str) -> models.AgentReadinessAnswer:
        """Can this wallet bet?"""
        return self._call(calls.readiness(address))

    def stats(self) -> models.AgentStatsAnswer:
        """Platform statistics."""
        return self._call(calls.stats())

    def health(self) -> models.AgentHealthAnswer:
        """Liveness and trading status."""
        return self._call(calls.health())

    def getting_started(self) -> models.AgentGettingStarted:
        """Onboarding in six steps."""
        return self._call(calls.getting_started())

    def replay(
        self, *, wallet: str | None = None, from_seq: int | None = None, limit: int | None = None
    ) -> models.AgentReplayAnswer:
        """A wallet's events in order."""
        return self._call(calls.replay(wallet=self._settings.own(wallet), from_seq=from_seq, limit=limit))

    def resolved(
        self, *, wallet: str | None = None, since: str | None = None, limit: int | None = None
    ) -> models.AgentResolvedAnswer:
        """How a wallet's markets ended."""
        return self._call(calls.resolved(wallet=self._settings.own(wallet), since=since, limit=limit))

    def webhook(self, id: str) -> models.AgentWebhookAnswer:
        """How a webhook stands."""
        return self._call(calls.webhook(id))

    def delete_webhook(self, id: str) -> models.AgentDeletedAnswer:
        """Remove a webhook."""
        return self._call(calls.delete_webhook(id))

    def test_webhook(self, id: str) -> models.AgentTestAnswer:
        """Send a test event."""
        return self._call(calls.test_webhook(id))


class AsyncOperations(ABC):
    """The reads and the smaller writes. A `wallet` left out is the client's own."""

    _settings: Settings

    @abstractmethod
    async def _call(self, call: Call[T]) -> T:
        """The answer to a call."""

    async def markets(
        self,
        *,
        status: str | None = None,
        type: str | None = None,
        token: str | None = None,
        ids: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.AgentMarkets:
        """List tradeable markets."""
        return await self._call(
            calls.markets(status=status, type=type, token=token, ids=ids, limit=limit, cursor=cursor)
        )

    async def market(self, id: str) -> models.AgentOneMarket:
        """One market."""
        return await self._call(calls.market(id))

    async def research(self, id: str) -> models.AgentResearchAnswer:
        """Research bundle."""
        return await self._call(calls.research(id))

    async def discover(
        self, *, q: str | None = None, post: str | None = None, limit: int | None = None
    ) -> models.AgentDiscoverAnswer:
        """Find markets by free text or by a social post."""
        return await self._call(calls.discover(q=q, post=post, limit=limit))

    async def sentiment(self, token: str) -> models.AgentSentimentAnswer:
        """What the crowd thinks of a token."""
        return await self._call(calls.sentiment(token))

    async def quote(
        self, market_id: str, *, side: str | None = None, size_usd: Amount | None = None, wallet: str | None = None
    ) -> models.AgentQuoteAnswer:
        """Price a bet."""
        return await self._call(calls.quote(market_id, side=side, size_usd=size_usd, wallet=self._settings.own(wallet)))

    async def positions(
        self, *, wallet: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> models.AgentPositionsAnswer:
        """A wallet's positions, newest first."""
        return await self._call(calls.positions(wallet=self._settings.own(wallet), limit=limit, cursor=cursor))

    async def result(self, market_id: str) -> models.AgentResultAnswer:
        """How a market resolved."""
        return await self._call(calls.result(market_id))

    async def proof(self, trade_id: str) -> models.AgentTradeProofAnswer:
        """Settlement proof of a trade."""
        return await self._call(calls.proof(trade_id))

    async def readiness(self, address: str) -> models.AgentReadinessAnswer:
        """Can this wallet bet?"""
        return await self._call(calls.readiness(address))

    async def stats(self) -> models.AgentStatsAnswer:
        """Platform statistics."""
        return await self._call(calls.stats())

    async def health(self) -> models.AgentHealthAnswer:
        """Liveness and trading status."""
        return await self._call(calls.health())

    async def getting_started(self) -> models.AgentGettingStarted:
        """Onboarding in six steps."""
        return await self._call(calls.getting_started())

    async def replay(
        self, *, wallet: str | None = None, from_seq: int | None = None, limit: int | None = None
    ) -> models.AgentReplayAnswer:
        """A wallet's events in order."""
        return await self._call(calls.replay(wallet=self._settings.own(wallet), from_seq=from_seq, limit=limit))

    async def resolved(
        self, *, wallet: str | None = None, since: str | None = None, limit: int | None = None
    ) -> models.AgentResolvedAnswer:
        """How a wallet's markets ended."""
        return await self._call(calls.resolved(wallet=self._settings.own(wallet), since=since, limit=limit))

    async def webhook(self, id: str) -> models.AgentWebhookAnswer:
        """How a webhook stands."""
        return await self._call(calls.webhook(id))

    async def delete_webhook(self, id: str) -> models.AgentDeletedAnswer:
        """Remove a webhook."""
        return await self._call(calls.delete_webhook(id))

    async def test_webhook(self, id: str) -> models.AgentTestAnswer:
        """Send a test event."""
        return await self._call(calls.test_webhook(id))
