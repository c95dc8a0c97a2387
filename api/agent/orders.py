"""From a request to an order, or the refusal: everything that is checked before anybody pays."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from api.agent import store
from api.agent.chain import AgentContracts
from api.agent.facts import Market, Venue
from api.agent.models import MIN_SIZE, TradeRequest
from api.agent.problems import problem
from api.agent.storage import storage
from api.agent.switch import Trading
from core.db.engine import Pool
from core.mirror.intent import ZERO_ADDRESS, Intent, intent_hash
from core.mirror.settlement import Quote
from core.money import USD, decimal_text

__all__ = ["MIN_SIZE", "SIMPLE_MAX", "Order", "OrderDesk"]

SIMPLE_MAX = 10 * USD
MOST_POINTS = 40 * 10**16  # wad: what one trade may move the price by
# Blocks come with gaps; the wall clock may run ahead of the head by so much before it is not believed.
CLOCK_SLACK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Order:
    """A trade as it will be settled. `hash` is its public id."""

    request: TradeRequest
    market: Market
    outcome: int
    got: Quote
    intent: Intent
    hash: bytes

    @property
    def wallet(self) -> str:
        return self.intent.wallet

    @property
    def resource_hash(self) -> str:
        return "0x" + self.hash.hex()


class OrderDesk:
    def __init__(self, pool: Pool, switch: Trading, *, clock: Callable[[], float] = time.time) -> None:
        self._pool = pool
        self._switch = switch
        self._clock = clock

    async def order(
        self, wanted: TradeRequest, market: Market, venue: Venue, key_hash: bytes, contracts: AgentContracts
    ) -> Order:
        """The checks in the order the documentation gives them."""
        self._check_on(venue)
        self._check_open(market, venue)
        outcome = market.outcome(wanted.side)
        if outcome is None:
            keys = ", ".join(each.key for each in market.outcomes)
            raise problem("invalid_side", f"Market {market.id} has no side {wanted.side!r}; it has {keys}.")
        if wanted.size > SIMPLE_MAX:
            await self._check_lock(wanted, market, outcome, key_hash)
        got = market.book.quote(outcome, wanted.size)
        least = wanted.least_shares(got.net)
        if got.shares < least:
            raise problem(
                "slippage_exceeded",
                f"The book gives {decimal_text(got.shares)} shares now; your limits ask for {decimal_text(least)}.",
            )
        if got.price_after - got.price_before > MOST_POINTS:
            raise problem("pool_impact_exceeded", "This bet alone would move the price by more than 40 points.")
        intent = Intent(
            market_id=market.key,
            outcome=outcome,
            amount=wanted.size,
            min_shares=least,
            wallet=wanted.wallet,
            idem_hash=key_hash,
            builder=wanted.builder or ZERO_ADDRESS,
            ref=(wanted.ref or "").encode().ljust(32, b"\0"),
        )
        hashed = intent_hash(intent, contracts.chain_id, contracts.settlement.address)
        return Order(wanted, market, outcome, got, intent, hashed)

    def now(self, head_timestamp: int) -> int:
        """The chain's clock; between its blocks it runs on with ours, unless the two have nothing to do with each
        other (a warped or stalled chain)."""
        wall = int(self._clock())
        return wall if 0 <= wall - head_timestamp <= CLOCK_SLACK_SECONDS else head_timestamp

    def _check_on(self, venue: Venue) -> None:
        reason = self._switch.why_off(venue)
        if reason is not None:
            raise problem("platform_paused", reason, retry_after=5)

    def _check_open(self, market: Market, venue: Venue) -> None:
        now = self.now(venue.now)
        if market.ending is not None or now >= market.closes_at:
            raise problem("market_closed", f"Market {market.id} is {market.status(now)}; it takes no bets.")
        if now < market.opens_at:
            raise problem("market_closed", f"Market {market.id} is not open yet.")
        if not market.supported:
            raise problem("unsupported_market", f"Market {market.id} is not one this service can settle on Base.")

    async def _check_lock(self, wanted: TradeRequest, market: Market, outcome: int, key_hash: bytes) -> None:
        if wanted.quote_id is None or (wanted.min_shares is None and wanted.max_price_cents is None):
            raise problem(
                "quote_required",
                "A bet above 10 USD needs quoteId, and minSharesOut or maxPriceCents with it.",
            )
        async with storage("The price locks"), self._pool.connection() as connection:
            lock = await store.find_lock(connection, wanted.quote_id)
        if lock is None:
            raise problem("quote_mismatch", "There is no such quote.")
        if (lock.market_key, lock.outcome, lock.amount) != (market.key, outcome, wanted.size):
            raise problem("quote_mismatch", "The quote is for another market, side or size.")
        mine = (bytes.fromhex(wanted.wallet[2:]), key_hash)
        if lock.wallet is not None and (lock.wallet, lock.idem_hash) != mine:
            raise problem("quote_mismatch", "The quote has served another trade.")
        if lock.expired:
            raise problem("quote_expired", "The quote is older than 60 seconds.")
