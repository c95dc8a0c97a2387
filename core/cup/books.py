"""Paper markets: their rows and books, wallets' positions in them, and how they mirror agent markets.

A paper market has the id, outcomes and times of a listed agent market, and scaled weights. All texts come from the
specification, as on the agent API; no text from the lister is shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from core.agent.book import Book
from core.agent.document import Specification, listed_document
from core.agent.words import OutcomeWords
from core.contracts.statuses import AgentMarketStatus, MarketKind
from core.cup import CLAIM_CENTS, PaperStatus, Refusal
from core.cup.ledger import balance, market_account, open_account, snapshot, wallet_account
from core.db.engine import Connection

# Paper trades pay no fee, so winners split everything that is staked.
FEE_BPS = 0

# Factor of the initial weights over those of the listed market, in pUSDC per dollar.
WEIGHTS_TIMES: Final = 10
_UNITS_A_CENT: Final = 10**4

_SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")

_MARKETS = (
    "SELECT c.slug, c.market_id, c.kind, c.question, c.short_title, c.token_symbol, c.outcomes, c.weights_cents,"  # noqa: S608
    " c.net_cents, c.shares_cents, c.trades, c.opens_at, c.closes_at, c.start_at, c.ends_at, c.status, c.winner,"
    " to_timestamp(a.settles_after),"
    f" a.status IS NOT DISTINCT FROM {AgentMarketStatus.OPEN:d}"
    " FROM cup_market c LEFT JOIN agent_market a ON a.market_id = c.market_key"
)


def paper_book(weights_cents: Sequence[int], net_cents: Sequence[int], shares_cents: Sequence[int]) -> Book:
    """Return the book of a paper market. Paper trades have no fee, so every trade gets at least as many shares as
    cents, and each outcome's `excess` is its shares less its net stakes."""
    excess = tuple(shares - net for shares, net in zip(shares_cents, net_cents, strict=True))
    return Book(tuple(weights_cents), FEE_BPS, tuple(net_cents), tuple(shares_cents), excess)


@dataclass(frozen=True, slots=True)
class PaperMarket:
    """A paper market. Amounts and shares in `book` are in cents.

    Trading ends at `closes_at`, when staking on the agent market ends. The reading at `ends_at` decides the market; if
    `start_at` is set, that reading is compared with the one at `start_at`.

    listed: whether the agent market is open. A reorganization may undo the agent market's listing and clear
    `settles_after`. Trading then stops, and the keeper settles the paper market later.
    """

    slug: str
    market_id: str
    kind: MarketKind
    question: str
    short_title: str
    token_symbol: str
    sides: tuple[OutcomeWords, ...]
    book: Book
    trades: int
    opens_at: datetime
    closes_at: datetime
    start_at: datetime | None
    ends_at: datetime
    status: str
    winner: int | None
    settles_after: datetime | None
    listed: bool

    @property
    def binary(self) -> bool:
        return self.kind is not MarketKind.RANGE

    @property
    def direction(self) -> bool:
        return self.kind is MarketKind.DIRECTION

    def is_open(self, now: datetime) -> bool:
        return self.status == "open" and self.listed and self.opens_at <= now < self.closes_at

    def outcome(self, side: str) -> int:
        """Return the index of a side. If the market has no such side, raise a Refusal that lists the valid sides."""
        keys = [each.key for each in self.sides]
        if side not in keys:
            raise Refusal(422, "invalid_side", f"This market's sides are {', '.join(keys)}.", {"validSides": keys})
        return keys.index(side)

    def require_open(self, now: datetime) -> None:
        if not self.is_open(now):
            raise Refusal(409, "market_closed", "Trading on this market has ended, or has not begun yet.")


def _market(row: Sequence[Any]) -> PaperMarket:
    (slug, market_id, kind, question, title, symbol, outcomes, weights, net, shares, *rest) = row
    return PaperMarket(
        slug,
        market_id,
        MarketKind(kind),
        question,
        title,
        symbol,
        tuple(OutcomeWords(each["key"], each["label"], each["shortLabel"]) for each in outcomes),
        paper_book(weights, net, shares),
        *rest,
    )


async def find(connection: Connection, slug: str, *, lock: bool = False) -> PaperMarket:
    """Return a market; raise a Refusal if it does not exist. If `lock` is set, no other transaction can trade on the
    market or settle it until this transaction ends."""
    markets = await (lock_all if lock else find_all)(connection, [slug])
    if slug not in markets:
        raise no_market()
    return markets[slug]


async def find_all(connection: Connection, slugs: Collection[str]) -> dict[str, PaperMarket]:
    """Return the existing markets by slug."""
    rows = await connection.fetch_all(
        f"{_MARKETS} WHERE c.slug = ANY(%s)".encode(), ([slug for slug in slugs if is_slug(slug)],)
    )
    return {row[0]: _market(row) for row in rows}


async def lock_all(connection: Connection, slugs: Collection[str]) -> dict[str, PaperMarket]:
    """Lock the markets against trades and settlement until the transaction ends. The locks are taken in the order of
    the slugs. Return the markets that exist."""
    # Lock in a separate statement: one that waits for a lock would still see the rows as they were before.
    await connection.execute(
        "SELECT 1 FROM cup_market WHERE slug = ANY(%s) ORDER BY slug FOR NO KEY UPDATE",
        ([slug for slug in slugs if is_slug(slug)],),
    )
    return await find_all(connection, slugs)


def no_market() -> Refusal:
    return Refusal(404, "market_not_found", "There is no paper market with this slug.")


async def open_markets(connection: Connection, now: datetime, limit: int) -> list[PaperMarket]:
    """Return up to `limit` open markets, sorted by closing time."""
    rows = await connection.fetch_all(
        f"{_MARKETS} WHERE c.status = 'open' AND a.status = {AgentMarketStatus.OPEN:d} AND c.opens_at <= %s "
        "AND c.closes_at > %s "
        "ORDER BY c.closes_at, c.slug LIMIT %s".encode(),
        (now, now, limit),
    )
    return [_market(row) for row in rows]


# ---------------------------------------------------------------- mirroring agent markets


def is_slug(text: str) -> bool:
    """Return whether a paper market can have this slug. Do not look up other text: PostgreSQL refuses NUL in text."""
    return _SLUG.fullmatch(text) is not None


def new_market(market_key: bytes, spec: Specification, weights: Sequence[int], feed_key: str | None) -> PaperMarket:
    """Make the paper market of a listed agent market.

    weights: the agent market's weights in token units.
    feed_key: the feed's key, or None if the deployment does not list the feed.
    """
    words = listed_document(market_key, spec, feed_key)
    return PaperMarket(
        slug=words.id,
        market_id=words.id,
        kind=spec.kind,
        question=words.question,
        short_title=words.short_title,
        token_symbol=words.token_symbol,
        sides=words.outcomes,
        book=Book.empty([paper_weight(int(weight)) for weight in weights], FEE_BPS),
        trades=0,
        opens_at=_moment(spec.opens_at),
        closes_at=_moment(spec.closes_at),
        start_at=_moment(spec.start_at) if spec.kind is MarketKind.DIRECTION else None,
        ends_at=_moment(spec.ends_at),
        status="open",
        winner=None,
        settles_after=_moment(spec.settles_after),
        listed=True,
    )


def paper_weight(units: int) -> int:
    """Convert a weight to cents. Round down, but to at least one cent, since a price needs a weight above zero."""
    return max(1, units * WEIGHTS_TIMES // _UNITS_A_CENT)


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


_LISTED = (
    "SELECT a.market_id, a.kind, a.feed, a.target, a.bounds, a.early_resolvable, a.published, a.max_age, a.opens_at,"  # noqa: S608
    " a.closes_at, a.start_at, a.ends_at, a.early_from, a.settles_after, a.voids_after, a.weights FROM agent_market a "
    f"WHERE a.status = {AgentMarketStatus.OPEN:d} AND a.closes_at > %s "
    "AND NOT EXISTS (SELECT FROM cup_market c WHERE c.market_key = a.market_id) "
    "ORDER BY a.listed_block, a.listed_log_index"
)


async def mirror(connection: Connection, now: datetime, feed_keys: Mapping[bytes, str]) -> list[str]:
    """Open a paper market for every open agent market that has none, and return the new slugs.

    feed_keys: the keys of the deployment's feeds by address.
    """
    async with connection.cursor(row_factory=namedtuple_row) as cursor:
        await cursor.execute(_LISTED, (int(now.timestamp()),))
        listed: list[Any] = await cursor.fetchall()
    made: list[str] = []
    for row in listed:
        spec = Specification.from_row(row)
        market = new_market(row.market_id, spec, row.weights, feed_keys.get(spec.feed))
        if await add(connection, row.market_id, market):
            made.append(market.slug)
    return made


async def add(connection: Connection, market_key: bytes, market: PaperMarket) -> bool:
    """Add a paper market. Return False if the slug is in use or the agent market has a paper market already."""
    sides = [{"key": each.key, "label": each.label, "shortLabel": each.short_label} for each in market.sides]
    async with connection.transaction():
        cursor = await connection.execute(
            "INSERT INTO cup_market (slug, market_key, market_id, kind, question, short_title, token_symbol, outcomes,"
            " weights_cents, net_cents, shares_cents, opens_at, closes_at, start_at, ends_at) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (
                market.slug,
                market_key,
                market.market_id,
                int(market.kind),
                market.question,
                market.short_title,
                market.token_symbol,
                Jsonb(sides),
                list(market.book.weights),
                list(market.book.net),
                list(market.book.shares),
                market.opens_at,
                market.closes_at,
                market.start_at,
                market.ends_at,
            ),
        )
        if cursor.rowcount == 0:
            return False
        await open_account(connection, market_account(market.slug))
    return True


# ---------------------------------------------------------------- positions


@dataclass(frozen=True, slots=True)
class PaperPosition:
    """A wallet's position in a paper market, with the market's times. The projected payout is what a win would pay
    given the current book; after settlement, it is the amount paid."""

    market_id: str
    slug: str
    side: str
    side_label: str
    cost_cents: int
    shares_cents: int
    status: PaperStatus
    realized_pnl_cents: int
    projected_payout_cents: int
    closes_at: datetime
    start_at: datetime | None
    ends_at: datetime
    settles_after: datetime | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A wallet's balance and positions, open ones first."""

    balance_cents: int
    realized_pnl_cents: int
    positions: tuple[PaperPosition, ...]


async def summary(connection: Connection, wallet: str) -> Summary:
    """Read a wallet's summary at one moment. All amounts are zero for a wallet that never claimed."""
    async with snapshot(connection):
        balance_cents = await balance(connection, wallet_account(wallet))
        spinning: int = await connection.fetch_value(
            "SELECT COALESCE(sum(stake_cents), 0)::bigint FROM cup_bet WHERE wallet = %s"
            " AND round_no = ANY(ARRAY(SELECT round_no FROM cup_round WHERE settled_at IS NULL))",
            (wallet,),
        )
        rows = await connection.fetch_all(
            "SELECT m.market_id, m.slug, m.outcomes, p.outcome, p.cost_cents, p.shares_cents, p.status, p.paid_cents, "
            "m.weights_cents, m.net_cents, m.shares_cents, m.closes_at, m.start_at, m.ends_at,"
            " to_timestamp(a.settles_after) FROM cup_position p JOIN cup_market m USING (slug)"
            " LEFT JOIN agent_market a ON a.market_id = m.market_key "
            "WHERE p.wallet = %s ORDER BY (p.status = 'open') DESC, p.opened_at DESC, p.slug, p.outcome",
            (wallet,),
        )
    positions = []
    for market_id, slug, outcomes, outcome, cost, shares, status, paid, weights, net, issued, *times in rows:
        is_open = status == "open"
        book = paper_book(weights, net, issued)
        positions.append(
            PaperPosition(
                market_id,
                slug,
                outcomes[outcome]["key"],
                outcomes[outcome]["label"],
                cost,
                shares,
                status,
                0 if is_open else paid - cost,
                book.projected(outcome, cost, shares) if is_open else paid,
                *times,
            )
        )
    # Balance and open stakes, less what was minted. A board may count less of this.
    at_stake = sum(each.cost_cents for each in positions if each.status == "open") + spinning
    realized = 0 if balance_cents is None else balance_cents + at_stake - CLAIM_CENTS
    return Summary(balance_cents or 0, realized, tuple(positions))
