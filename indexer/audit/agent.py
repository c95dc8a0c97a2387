"""The agent side's views: what settlement wallet, resolver and lister say against the agent tables, whose rows are what
their logs make."""

from __future__ import annotations

from typing import Any

from core.agent.bet import is_marked
from core.agent.book import Book
from core.chain.errors import RpcError
from core.contracts.events import Role
from core.contracts.statuses import AgentMarketStatus, StakeStatus
from core.hexadecimal import hex_of
from indexer.audit.compare import under_names
from indexer.audit.pages import AuditStage, Place, Scene, whole
from indexer.fold import agent
from indexer.fold.payments import PAID
from indexer.fold.venues import AGENT_FEED, AGENT_ROLE, AGENT_VENUE, LISTER
from indexer.store.tables import all_rows, rows_after, rows_by_key

MARKETS_AT_ONCE = 50
STAKES_AT_ONCE = 300
BOOKS_AT_ONCE = 1_000

_PAYMENTS = b"""
SELECT s.stake_id, a.state, a.value, a.recipient,
  a.tx = s.staked_tx OR (a.block_number, a.log_index) < (s.staked_block, s.staked_log_index),
  (SELECT count(*) FROM agent_stake o WHERE o.wallet = s.wallet AND o.nonce = s.nonce)
FROM agent_stake s LEFT JOIN token_authorization a ON a.chain_id = %s AND a.authorizer = s.wallet AND a.nonce = s.nonce
WHERE s.stake_id = ANY(%s)
"""
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
        AuditStage("agent markets", _markets_page, of_views=True),
        AuditStage("agent stakes", _stakes_page, of_views=True),
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
    """Roles, feeds and bounds."""
    wallet, lister = scene.contracts[Role.WALLET], scene.contracts.get(Role.AGENT_LISTER)
    roles = await all_rows(scene.connection, AGENT_ROLE)
    by_lister = [row for row in roles if row.role == LISTER]
    by_wallet = [row for row in roles if row.role != LISTER]
    calls = [wallet.call("hasRole", row.role, hex_of(row.account)) for row in by_wallet]
    if lister is not None:
        calls += [lister.call("isLister", hex_of(row.account)) for row in by_lister]
    answers = await scene.read(*calls)
    for row, answer in zip(by_wallet + by_lister, answers, strict=lister is not None):
        scene.comparison.value("role", (row.role, row.account), "allowed", row.allowed, answer)
    if lister is None:
        return
    feeds = await all_rows(scene.connection, AGENT_FEED)
    venues = await all_rows(scene.connection, AGENT_VENUE)
    bounds, *answers = await scene.read(
        lister.call("bounds"), *(lister.call("feed", hex_of(row.feed)) for row in feeds)
    )
    for row in venues:
        scene.comparison.fields("bounds", "", under_names(row, *_BOUNDS), bounds)
    for row, answer in zip(feeds, answers, strict=True):
        scene.comparison.fields("agent feed", row.feed, under_names(row, *_FEED), answer)


# ---------------------------------------------------------------- markets


async def _markets_page(scene: Scene, after: Place | None) -> Place | None:
    """Markets in the order in which they were opened."""
    if after is None:
        count = await scene.client.read(scene.contracts[Role.WALLET].call("marketCount"), scene.block)
        (ours,) = await scene.row(b"SELECT count(*) FROM agent_market")
        scene.comparison.value("wallet", "", "marketCount", ours, count)
    rows = await rows_after(scene.connection, agent.MARKET, ("index",), after, MARKETS_AT_ONCE)
    books = await _books(scene, rows)
    for row in rows:
        await _market(scene, row, books[row.market_id])
    return [rows[-1].index] if rows else None


async def _books(scene: Scene, markets: list[Any]) -> dict[bytes, Book]:
    keys = [(each.market_id,) for each in markets]
    outcomes: dict[bytes, list[Any]] = {row.market_id: [] for row in markets}
    rows = await rows_by_key(scene.connection, agent.OUTCOME, ("market_id",), keys)
    for row in sorted(rows, key=lambda each: each.outcome):
        outcomes[row.market_id].append(row)
    return {row.market_id: Book.of_rows(row, outcomes[row.market_id]) for row in markets}


async def _market(scene: Scene, row: Any, book: Book) -> None:
    """One market and its outcomes."""
    wallet, resolver = scene.contracts[Role.WALLET], scene.contracts.get(Role.AGENT_RESOLVER)
    calls = [wallet.call("market", row.market_id)]
    calls += [wallet.call("outcomeBook", row.market_id, outcome) for outcome in range(row.outcomes)]
    if resolver is not None:
        calls.append(resolver.call("terms", row.market_id))
    answer, *more = await scene.read(*calls)
    comparison, key = scene.comparison, hex_of(row.market_id)
    ours = {
        **under_names(row, "index", "status", "outcomes"),
        "winner": row.winner or 0,
        "refunding": row.status != AgentMarketStatus.OPEN and book.refunds(row.winner),
        **under_names(row, *_MARKET),
        "stakes": row.stakes + row.late_payments,
        **under_names(row, *_TOTALS),
    }
    comparison.fields("agent market", key, ours, answer)
    for outcome in range(row.outcomes):
        ours_book = {
            "net": book.net[outcome],
            "shares": book.shares[outcome],
            "excess": book.excess[outcome],
            "weight": book.weight(outcome),
            "price": book.price(outcome),
        }
        comparison.fields("outcome book", f"{key}/{outcome}", ours_book, more[outcome])
    if resolver is not None:
        terms = under_names(row, *_TERMS, *_MOMENTS, "target", "bounds")
        comparison.fields("agent terms", key, terms, more[-1])


# ---------------------------------------------------------------- stakes


async def _stakes_page(scene: Scene, after: Place | None) -> Place | None:
    """Stakes by id, of whatever market: the contract gives ids out by market and order of payment."""
    rows = await rows_after(scene.connection, agent.STAKE, ("stake_id",), after, STAKES_AT_ONCE)
    if not rows:
        return None
    ids = sorted({row.market_id for row in rows})
    market_rows = await rows_by_key(scene.connection, agent.MARKET, ("market_id",), [(each,) for each in ids])
    markets = {row.market_id: row for row in market_rows}
    books = await _books(scene, market_rows)
    await _views(scene, markets, books, rows)
    await _payments(scene, rows)
    return [rows[-1].stake_id]


async def _views(scene: Scene, markets: dict[bytes, Any], books: dict[bytes, Book], rows: list[Any]) -> None:
    wallet, comparison = scene.contracts[Role.WALLET], scene.comparison
    calls = []
    for row in rows:
        owner = hex_of(row.wallet)
        calls += [wallet.call("stake", row.stake_id), wallet.call("booked", owner, row.nonce)]
    answers = await scene.read(*calls)
    for at, row in enumerate(rows):
        stated, booked = answers[2 * at : 2 * at + 2]
        market, book = markets[row.market_id], books[row.market_id]
        payable = row.amount if row.status == StakeStatus.OWED_BACK else 0
        if row.status == StakeStatus.IN_BOOK and market.status != AgentMarketStatus.OPEN:
            payable = book.owed(market.winner, row.outcome, row.amount, row.shares)
        ours = {**under_names(row, "marketId", "wallet", "status", "amount", "fee", "shares"), "payable_": payable}
        if row.outcome is not None:
            ours["outcome"] = row.outcome
        comparison.fields("stake", row.stake_id, ours, stated)
        # The receive form needs no record: nothing but the contract itself can take such a payment.
        comparison.value("stake", row.stake_id, "booked", not is_marked(row.nonce), booked)


async def _payments(scene: Scene, rows: list[Any]) -> None:
    """Each stake against the very authorization that paid for it."""
    ids = [row.stake_id for row in rows]
    payments = {stake_id: tuple(rest) for stake_id, *rest in await scene.rows(_PAYMENTS, (scene.sources.chain_id, ids))}
    recipient = scene.sources.contracts[Role.WALLET]
    for row in rows:
        state, value, paid_to, in_time, stakes = payments[row.stake_id]
        ours = (PAID, row.amount, recipient, True, 1)
        brought = None if value is None else int(value)
        stated = (state, brought, None if paid_to is None else bytes(paid_to), in_time, stakes)
        scene.comparison.value("stake", row.stake_id, "payment", ours, stated)
