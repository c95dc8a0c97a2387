"""The agent side's audit: settlement wallet, resolver and lister against the agent tables.

The contracts are asked first what there is (how many markets, how many stakes in each), so a row that is missing is
found like one that is wrong.
"""

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

_STAKES_OF_MARKETS = f"""
SELECT k.market_id, count(s.stake_id), count(s.outcome),
  coalesce(sum(s.amount) FILTER (WHERE s.outcome IS NOT NULL), 0),
  coalesce(sum(s.paid_amount) FILTER (WHERE s.status = {StakeStatus.REFUNDED:d}), 0),
  count(*) FILTER (WHERE s.status = {StakeStatus.OWED_BACK:d}),
  count(*) FILTER (WHERE s.status = {StakeStatus.IN_BOOK:d}),
  count(*) FILTER (WHERE s.status = {StakeStatus.IN_BOOK:d} AND s.outcome = m.winner)
FROM unnest(%s::bytea[]) AS k (market_id) LEFT JOIN agent_stake s ON s.market_id = k.market_id
LEFT JOIN agent_market m ON m.market_id = k.market_id GROUP BY k.market_id
""".encode()  # noqa: S608
# The contract keeps a key with the first payment booked under it.
_FIRST_OF_KEY = b"""
SELECT DISTINCT ON (k.wallet, k.idem_hash) k.wallet, k.idem_hash, s.stake_id
FROM unnest(%s::bytea[], %s::bytea[]) AS k (wallet, idem_hash)
JOIN agent_stake s ON s.wallet = k.wallet AND s.idem_hash = k.idem_hash
ORDER BY k.wallet, k.idem_hash, s.staked_block, s.staked_log_index
"""
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
_FEED = ("allowed", "condemned", "published", "memory_", "maxAge", "lag", "potCap", "step")
_MARKET = ("opensAt", "closesAt", "feeBps", "potCap", "weights")
_TOTALS = ("staked", "netPool", "paidShares", "paidOut")
_TERMS = ("kind", "feed", "earlyResolvable", "published", "maxAge")
_MOMENTS = ("startAt", "endsAt", "earlyFrom", "settlesAfter", "voidsAfter")


def stages() -> list[AuditStage]:
    return [
        whole("agent permissions", _permissions),
        AuditStage("agent markets", _markets_page),
        AuditStage("agent stakes", _stakes_page),
        whole("agent liabilities", _liabilities),
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
    """All of them in one snapshot, a few at a time. Those that lack outcomes are told of where markets are compared."""
    owed, after = _Owed(), None
    while rows := await rows_after(scene.connection, agent.MARKET, ("index",), after, BOOKS_AT_ONCE):
        books = await _books(scene, rows)
        for row in rows:
            if (book := books.get(row.market_id)) is not None:
                owed.add(row, book)
        after = [rows[-1].index]
    return owed


async def _permissions(scene: Scene) -> None:
    """Roles, feeds and bounds. That none is missing, `indexer.audit.shared` sees."""
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
    """The contract's markets from a place in its list on, with their outcomes; those that are missing or too many are
    told of."""
    wallet = scene.contracts[Role.WALLET]
    count = await scene.client.read(wallet.call("marketCount"), scene.block)
    at = 0 if after is None else after[0]
    if at == 0:
        (ours,) = await scene.row(b"SELECT count(*) FROM agent_market")
        scene.comparison.value("wallet", "", "marketCount", ours, count)
    if at >= count:
        return None
    until = min(at + MARKETS_AT_ONCE, count)
    answers = await scene.read(*(wallet.call("marketIdAt", position) for position in range(at, until)))
    ids = [each for each in answers if not isinstance(each, RpcError)]
    keys = [(each,) for each in ids]
    rows = await rows_by_key(scene.connection, agent.MARKET, ("market_id",), keys)
    scene.comparison.keys("agent market", ((each.index, each.market_id) for each in rows), enumerate(ids, at + 1))
    outcomes = await _outcomes(scene, rows)
    counted = {bytes(key): rest for key, *rest in await scene.rows(_STAKES_OF_MARKETS, (ids,))}
    for row in sorted(rows, key=lambda each: each.index):
        its = outcomes.get(row.market_id, [])
        expected = [(row.market_id, outcome) for outcome in range(row.outcomes)]
        scene.comparison.keys("outcome", [(each.market_id, each.outcome) for each in its], expected)
        if len(its) == row.outcomes:
            await _market(scene, row, Book.of_rows(row, its), counted[row.market_id])
    return [until]


async def _outcomes(scene: Scene, markets: list[Any]) -> dict[bytes, list[Any]]:
    """Each market's, in order."""
    keys = [(each.market_id,) for each in markets]
    rows = await rows_by_key(scene.connection, agent.OUTCOME, ("market_id",), keys)
    outcomes: dict[bytes, list[Any]] = {}
    for row in sorted(rows, key=lambda each: each.outcome):
        outcomes.setdefault(row.market_id, []).append(row)
    return outcomes


async def _books(scene: Scene, markets: list[Any]) -> dict[bytes, Book]:
    """The books of those that have all their outcomes."""
    outcomes = await _outcomes(scene, markets)
    whole_ones = [row for row in markets if len(outcomes.get(row.market_id, [])) == row.outcomes]
    return {row.market_id: Book.of_rows(row, outcomes[row.market_id]) for row in whole_ones}


async def _market(scene: Scene, row: Any, book: Book, counted: list[Any]) -> None:
    """One market and its outcomes, and the sums of its stakes."""
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
    stakes, in_book, staked, given_back, owed_back, unsent, winning = counted
    # `answer` holds the counters to the contract's.
    comparison.value("agent market", key, "stake rows", stakes, row.stakes + row.late_payments)
    comparison.value("agent market", key, "stakes in the book", row.stakes, in_book)
    comparison.value("agent market", key, "sum of stakes", row.staked, int(staked))
    comparison.value("agent market", key, "sum of refunds", row.given_back, int(given_back))
    # Whom the keeper looks at goes by this count.
    is_open = row.status == AgentMarketStatus.OPEN
    unpaid = owed_back + (0 if is_open else unsent if book.refunds(row.winner) else winning)
    comparison.value("agent market", key, "stakes unpaid", row.unpaid, unpaid)


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
    scene.comparison.keys("agent market", books, ids)
    _check_ids(scene, markets, rows, after)
    there = [row for row in rows if row.market_id in books]
    await _views(scene, markets, books, there)
    await _payments(scene, there)
    return [rows[-1].stake_id]


def _check_ids(scene: Scene, markets: dict[bytes, Any], rows: list[Any], after: Place | None) -> None:
    """No id is left out before any of these; that none is after the last of a market, `stake rows` tells."""
    before = -1 if after is None else after[0]
    for row in rows:
        if (market := markets.get(row.market_id)) is not None:
            before = max(before, (market.index << 32) - 1)
        scene.comparison.value("stake", row.stake_id, "id before it", row.stake_id - 1, before)
        before = row.stake_id


async def _views(scene: Scene, markets: dict[bytes, Any], books: dict[bytes, Book], rows: list[Any]) -> None:
    wallet, comparison = scene.contracts[Role.WALLET], scene.comparison
    calls = []
    for row in rows:
        owner = hex_of(row.wallet)
        calls += [
            wallet.call("stake", row.stake_id),
            wallet.call("stakeOf", owner, row.idem_hash),
            wallet.call("booked", owner, row.nonce),
        ]
    answers = await scene.read(*calls)
    keys = ([row.wallet for row in rows], [row.idem_hash for row in rows])
    first = {(bytes(of), bytes(idem)): stake_id for of, idem, stake_id in await scene.rows(_FIRST_OF_KEY, keys)}
    for at, row in enumerate(rows):
        stated, under_key, booked = answers[3 * at : 3 * at + 3]
        market, book = markets[row.market_id], books[row.market_id]
        payable = row.amount if row.status == StakeStatus.OWED_BACK else 0
        if row.status == StakeStatus.IN_BOOK and market.status != AgentMarketStatus.OPEN:
            payable = book.owed(market.winner, row.outcome, row.amount, row.shares)
        ours = {**under_names(row, "marketId", "wallet", "status", "amount", "fee", "shares"), "payable_": payable}
        if row.outcome is not None:
            ours["outcome"] = row.outcome
        comparison.fields("stake", row.stake_id, ours, stated)
        # The contract counts what it sent by market; what it sent of each follows from its book.
        sent = row.amount if row.status == StakeStatus.REFUNDED else 0
        if row.status == StakeStatus.PAID:
            sent = book.owed(market.winner, row.outcome, row.amount, row.shares)
        comparison.value("stake", row.stake_id, "sent", row.paid_amount, sent)
        comparison.value("stake", row.stake_id, "stakeOf", first[row.wallet, row.idem_hash], under_key)
        # The receive form needs no record: nothing but the contract itself can take such a payment.
        comparison.value("stake", row.stake_id, "booked", not is_marked(row.nonce), booked)


async def _payments(scene: Scene, rows: list[Any]) -> None:
    """Each stake against the very authorization that paid for it, which `indexer.audit.shared` checks."""
    ids = [row.stake_id for row in rows]
    payments = {stake_id: tuple(rest) for stake_id, *rest in await scene.rows(_PAYMENTS, (scene.sources.chain_id, ids))}
    recipient = scene.sources.contracts[Role.WALLET]
    for row in rows:
        state, value, paid_to, in_time, stakes = payments[row.stake_id]
        ours = (PAID, row.amount, recipient, True, 1)
        brought = None if value is None else int(value)
        stated = (state, brought, None if paid_to is None else bytes(paid_to), in_time, stakes)
        scene.comparison.value("stake", row.stake_id, "payment", ours, stated)
