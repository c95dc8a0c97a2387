"""Claims, and a wallet's balance and positions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core.cup import PaperStatus
from core.cup.amounts import CLAIM_CENTS
from core.cup.books import paper_book
from core.cup.ledger import MINT, balance, open_account, post, snapshot, wallet_account
from core.db.engine import Connection


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of a claim: the wallet's balance, and whether it was minted just now."""

    balance_cents: int
    minted: bool


@dataclass(frozen=True, slots=True)
class PaperPosition:
    """A wallet's position in a paper market. `projected_cents`: the payout if its side won with the current book; once
    settled, what it was paid. The times are its market's."""

    market_id: str
    slug: str
    side: str
    label: str
    cost_cents: int
    shares_cents: int
    status: PaperStatus
    realized_cents: int
    projected_cents: int
    closes_at: datetime
    start_at: datetime | None
    ends_at: datetime
    settles_after: datetime | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A wallet's balance and positions, open ones first."""

    balance_cents: int
    realized_cents: int
    positions: tuple[PaperPosition, ...]

    @property
    def open_count(self) -> int:
        return sum(each.status == "open" for each in self.positions)


async def claim(connection: Connection, wallet: str) -> ClaimResult:
    """Mint the initial balance once; later claims only return the balance."""
    account = wallet_account(wallet)
    async with connection.transaction():
        minted = await open_account(connection, account)
        if minted:
            await post(connection, "claim", wallet, {account: CLAIM_CENTS, MINT: -CLAIM_CENTS})
        balance_cents = await balance(connection, account)
    assert balance_cents is not None
    return ClaimResult(balance_cents, minted)


async def summary(connection: Connection, wallet: str) -> Summary:
    """Read a wallet's summary at one moment; zeros for a wallet that never claimed."""
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
