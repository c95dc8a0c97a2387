"""The agent side's views: what settlement wallet, resolver and lister say against the agent tables, whose rows are what
their logs make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from core.agent.bet import is_marked
from core.agent.book import Book
from core.chain.errors import RpcError
from core.contracts.events import Role
from core.contracts.statuses import AgentMarketStatus, StakeStatus
from core.hexadecimal import hex_of
from indexer.audit.compare import under_names
from indexer.audit.pages import AuditStage, Scene, View, compare_views, of_rows, whole
from indexer.fold import agent
from indexer.fold.venues import AGENT_FEED, AGENT_ROLE, AGENT_VENUE, LISTER
from indexer.store.payments import BookedStake, unpaid_stakes
from indexer.store.tables import all_rows, rows_after, rows_by_key

BOOKS_AT_ONCE = 1_000

_LIABILITIES = f"""
SELECT coalesce(sum(amount) FILTER (WHERE status = {StakeStatus.OWED_BACK:d}), 0),
  coalesce(sum(amount) FILTER (WHERE status = {StakeStatus.REFUNDED:d} AND refund_reason IS NULL), 0),
  (SELECT coalesce(sum(fees_swept), 0) FROM agent_venue),
  (SELECT coalesce(bool_or(stakes_paused), false) FROM agent_venue) FROM agent_stake
""".encode()  # noqa: S608
_UNBOOKED = b"""
SELECT coalesce(sum(a.value), 0) FROM token_authorization a WHERE a.chain_id = %s AND a.state = 'paid'
AND a.recipient = %s AND NOT EXISTS (SELECT FROM agent_stake s WHERE s.wallet = a.authorizer AND s.nonce = a.nonce)
"""

# What views tell under the names of our columns.
_BOUNDS = ("feeBps", "minWeight", "maxWeight", "disputeWindow", "voidDelay")
_FEED = ("allowed", "condemned", "published", "memory_", "maxAge", "lag", "potCap", "step", "feedCap")
_MARKET = ("opensAt", "closesAt", "feeBps", "potCap", "weights")
_TOTALS = ("staked", "netPool", "paidShares", "paidOut")
_TERMS = ("kind", "feed", "earlyResolvable", "published", "maxAge")
_MOMENTS = ("startAt", "endsAt", "earlyFrom", "settlesAfter", "voidsAfter")


def stages() -> list[AuditStage]:
    return [
        whole("agent permissions", _permissions, of_views=True),
        of_rows("agent markets", agent.MARKET, "index", _markets),
        of_rows("agent stakes", agent.STAKE, "stake_id", _stakes),
        whole("agent liabilities", _liabilities, of_views=True),
    ]


# ---------------------------------------------------------------- what belongs to no market


async def _liabilities(scene: Scene) -> None:
    """What is owed, by our sums and by the contract's; and that what nobody booked is still there.

    The node is asked first: it may have let go of the block by the time the tables are summed.
    """
    wallet = scene.contracts[Role.WALLET]
    calls = [wallet.call("liabilities"), wallet.call("paused")]
    if Role.TOKEN in scene.contracts:
        calls.append(scene.contracts[Role.TOKEN].call("balanceOf", wallet.address))
    stated, paused_there, *more = await scene.read(*calls)
    owed = await _owed_of_markets(scene)
    late, given_back, swept, paused = await scene.row(_LIABILITIES)
    # What was given back of stakes in books leaves `unpaid`, as does every late payment that was sent back.
    ours = (owed.open_stakes, owed.unpaid + int(late) - int(given_back), owed.fees - int(swept))
    scene.comparison.value("wallet", "", "liabilities", ours, stated)
    scene.comparison.value("wallet", "", "paused", paused, paused_there)
    if more and not isinstance(stated, RpcError) and not isinstance(more[0], RpcError):
        values = (scene.sources.chain_id, scene.sources.contracts[Role.WALLET])
        (unbooked,) = await scene.row(_UNBOOKED, values)
        # Whoever sends the contract money in another way adds to what is there.
        left = more[0] - sum(stated)
        scene.comparison.value("wallet", "", "unbooked money is there", left >= int(unbooked), True)


class _Owed:
    """What the contract owes, summed over the markets; late payments are summed by the database."""

    def __init__(self) -> None:
        self.open_stakes = 0
        self.unpaid = 0
        self.fees = 0

    def add(self, row: Any, book: Book) -> None:
        if row.status == AgentMarketStatus.OPEN:
            self.open_stakes += row.staked
        elif book.refunds(row.winner):
            self.unpaid += row.staked
        else:
            self.fees += row.staked - row.net_pool
            if row.paid_shares == book.shares[row.winner]:
                self.fees += row.net_pool - row.paid_out  # every winner is paid: the dust is nobody's
            else:
                self.unpaid += row.net_pool - row.paid_out


async def _owed_of_markets(scene: Scene) -> _Owed:
    """All of them in one snapshot, a few at a time."""
    owed, after = _Owed(), None
    while rows := await rows_after(scene.connection, agent.MARKET, ("index",), after, BOOKS_AT_ONCE):
        books = await _books(scene, rows)
        for row in rows:
            owed.add(row, books[row.market_id])
        after = [rows[-1].index]
    return owed


async def _permissions(scene: Scene) -> None:
    """Compare roles, feeds and bounds, and the number of markets."""
    (markets,) = await scene.row(b"SELECT count(*) FROM agent_market")
    views = [View("wallet", "", Role.WALLET, "marketCount", (), markets)]
    for row in await all_rows(scene.connection, AGENT_ROLE):
        key, account = (row.role, row.account), hex_of(row.account)
        if row.role == LISTER:
            views.append(View("role", key, Role.AGENT_LISTER, "isLister", (account,), row.allowed))
        else:
            views.append(View("role", key, Role.WALLET, "hasRole", (row.role, account), row.allowed))
    for row in await all_rows(scene.connection, AGENT_FEED):
        ours = under_names(row, *_FEED)
        views.append(View("agent feed", row.feed, Role.AGENT_LISTER, "feed", (hex_of(row.feed),), ours))
    venues = await all_rows(scene.connection, AGENT_VENUE)
    views += [View("bounds", "", Role.AGENT_LISTER, "bounds", (), under_names(row, *_BOUNDS)) for row in venues]
    await compare_views(scene, views)


# ---------------------------------------------------------------- markets


async def _books(scene: Scene, markets: list[Any]) -> dict[bytes, Book]:
    keys = [(each.market_id,) for each in markets]
    outcomes: dict[bytes, list[Any]] = {row.market_id: [] for row in markets}
    rows = await rows_by_key(scene.connection, agent.OUTCOME, ("market_id",), keys)
    for row in sorted(rows, key=lambda each: each.outcome):
        outcomes[row.market_id].append(row)
    return {row.market_id: Book.of_rows(row, outcomes[row.market_id]) for row in markets}


async def _markets(scene: Scene, rows: list[Any]) -> list[View]:
    books = await _books(scene, rows)
    return [view for row in rows for view in _market(row, books[row.market_id])]


def _market(row: Any, book: Book) -> Iterator[View]:
    """One market and its outcomes."""
    key = hex_of(row.market_id)
    ours = {
        **under_names(row, "index", "status", "outcomes"),
        "winner": row.winner or 0,
        "refunding": row.status != AgentMarketStatus.OPEN and book.refunds(row.winner),
        **under_names(row, *_MARKET),
        "stakes": row.stakes + row.late_payments,
        **under_names(row, *_TOTALS),
    }
    yield View("agent market", key, Role.WALLET, "market", (row.market_id,), ours)
    for outcome in range(row.outcomes):
        ours_book = {
            "net": book.net[outcome],
            "shares": book.shares[outcome],
            "excess": book.excess[outcome],
            "weight": book.weight(outcome),
            "price": book.price(outcome),
        }
        arguments = (row.market_id, outcome)
        yield View("outcome book", f"{key}/{outcome}", Role.WALLET, "outcomeBook", arguments, ours_book)
    terms = under_names(row, *_TERMS, *_MOMENTS, "target", "bounds")
    yield View("agent terms", key, Role.AGENT_RESOLVER, "terms", (row.market_id,), terms)


# ---------------------------------------------------------------- stakes


async def _stakes(scene: Scene, rows: list[Any]) -> list[View]:
    """Stakes of any markets: the contract gives ids out by market and order of payment."""
    ids = sorted({row.market_id for row in rows})
    market_rows = await rows_by_key(scene.connection, agent.MARKET, ("market_id",), [(each,) for each in ids])
    markets = {row.market_id: row for row in market_rows}
    books = await _books(scene, market_rows)
    booked = [
        BookedStake(r.stake_id, r.wallet, r.nonce, r.amount, r.staked_block, r.staked_log_index, r.staked_tx)
        for r in rows
    ]
    unpaid = set(await unpaid_stakes(scene.connection, scene.sources, booked))
    for row in rows:
        scene.comparison.value("stake", row.stake_id, "paid", True, row.stake_id not in unpaid)
    return [view for row in rows for view in _stake(row, markets[row.market_id], books[row.market_id])]


def _stake(row: Any, market: Any, book: Book) -> Iterator[View]:
    payable = row.amount if row.status == StakeStatus.OWED_BACK else 0
    if row.status == StakeStatus.IN_BOOK and market.status != AgentMarketStatus.OPEN:
        payable = book.owed(market.winner, row.outcome, row.amount, row.shares)
    ours = {**under_names(row, "marketId", "wallet", "status", "amount", "fee", "shares"), "payable_": payable}
    if row.outcome is not None:
        ours["outcome"] = row.outcome
    yield View("stake", row.stake_id, Role.WALLET, "stake", (row.stake_id,), ours)
    # The receive form needs no record: nothing but the contract itself can take such a payment.
    is_booked = not is_marked(row.nonce)
    yield View("stake", row.stake_id, Role.WALLET, "booked", (hex_of(row.wallet), row.nonce), is_booked)
