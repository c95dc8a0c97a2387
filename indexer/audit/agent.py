"""The agent side's audit: settlement wallet, resolver and lister against the agent tables.

The contracts are asked first what there is (how many markets, how many stakes in each), so a row that is missing is
found like one that is wrong.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from core.addresses import address_text
from core.agent.bet import is_marked
from core.agent.book import Book
from core.chain import ChainClient, Contract
from core.chain.errors import RpcError
from core.contracts.events import Role
from core.contracts.statuses import AgentMarketStatus, StakeStatus
from indexer.audit.compare import Comparison
from indexer.fold import agent
from indexer.fold.agent import book_of
from indexer.fold.payments import PAID
from indexer.fold.venues import AGENT_FEED, AGENT_ROLE, AGENT_VENUE, LISTER
from indexer.sources import Sources
from indexer.store.tables import Connection, all_rows, rows_by_key

MARKETS_AT_ONCE = 50
STAKES_AT_ONCE = 300

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


async def audit_agent(
    connection: Connection,
    client: ChainClient,
    contracts: Mapping[Role, Contract],
    sources: Sources,
    block: str,
    comparison: Comparison,
) -> None:
    """`block` is the cursor's hash."""
    audited = _Audit(connection, client, contracts, sources, block, comparison)
    owed = _Owed()
    async with aclosing(audited.markets()) as markets:
        async for row, book in markets:
            await audited.market(row, book)
            owed.add(row, book)
    await audited.liabilities(owed)
    await audited.permissions()


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


class _Audit:
    """One audit of the agent tables at one block."""

    def __init__(
        self,
        connection: Connection,
        client: ChainClient,
        contracts: Mapping[Role, Contract],
        sources: Sources,
        block: str,
        comparison: Comparison,
    ) -> None:
        self._connection = connection
        self._client = client
        self._contracts = contracts
        self._wallet = contracts[Role.WALLET]
        self._sources = sources
        self._block = block
        self._comparison = comparison

    # ---------------------------------------------------------------- markets

    async def markets(self) -> AsyncGenerator[tuple[Any, Book]]:
        """Every market of the tables with its book, in opening order; markets and outcomes that are missing or too
        many are told of."""
        count = await self._client.read(self._wallet.call("marketCount"), self._block)
        row = await (await self._connection.execute("SELECT count(*) FROM agent_market")).fetchone()
        assert row is not None
        self._comparison.value("wallet", "", "marketCount", row[0], count)
        for at in range(0, count, MARKETS_AT_ONCE):
            some = range(at, min(at + MARKETS_AT_ONCE, count))
            calls = [self._wallet.call("marketIdAt", position) for position in some]
            ids = [each for each in await self._client.read_many(calls, self._block) if not isinstance(each, RpcError)]
            keys = [(each,) for each in ids]
            rows = await rows_by_key(self._connection, agent.MARKET, ("market_id",), keys)
            self._comparison.keys(
                "agent market", ((each.index, each.market_id) for each in rows), enumerate(ids, at + 1)
            )
            outcomes: dict[bytes, list[Any]] = {}
            for outcome in await rows_by_key(self._connection, agent.OUTCOME, ("market_id",), keys):
                outcomes.setdefault(outcome.market_id, []).append(outcome)
            for market in sorted(rows, key=lambda each: each.index):
                its = sorted(outcomes.get(market.market_id, []), key=lambda each: each.outcome)
                expected = [(market.market_id, outcome) for outcome in range(market.outcomes)]
                ours = [(each.market_id, each.outcome) for each in its]
                self._comparison.keys("outcome", ours, expected)
                if ours == expected:
                    yield market, book_of(market, its)

    async def market(self, row: Any, book: Book) -> None:
        """One market, its outcomes and its stakes."""
        calls = [self._wallet.call("market", row.market_id)]
        calls += [self._wallet.call("outcomeBook", row.market_id, outcome) for outcome in range(row.outcomes)]
        if Role.AGENT_RESOLVER in self._contracts:
            calls.append(self._contracts[Role.AGENT_RESOLVER].call("terms", row.market_id))
        answer, *more = await self._client.read_many(calls, self._block)
        key = "0x" + row.market_id.hex()
        ours = {
            "index": row.index,
            "status": row.status,
            "outcomes": row.outcomes,
            "winner": row.winner or 0,
            "refunding": row.status != AgentMarketStatus.OPEN and book.refunds(row.winner),
            "opensAt": row.opens_at,
            "closesAt": row.closes_at,
            "feeBps": row.fee_bps,
            "potCap": row.pot_cap,
            "weights": [int(each) for each in row.weights],
            "stakes": row.stakes + row.late_payments,
            "staked": row.staked,
            "netPool": row.net_pool,
            "paidShares": row.paid_shares,
            "paidOut": row.paid_out,
        }
        self._comparison.fields("agent market", key, ours, answer)
        for outcome in range(row.outcomes):
            ours_book = {
                "net": book.net[outcome],
                "shares": book.shares[outcome],
                "excess": book.excess[outcome],
                "weight": book.weight(outcome),
                "price": book.price(outcome),
            }
            self._comparison.fields("outcome book", f"{key}/{outcome}", ours_book, more[outcome])
        if Role.AGENT_RESOLVER in self._contracts:
            terms = {
                "kind": row.kind,
                "feed": address_text(row.feed),
                "earlyResolvable": row.early_resolvable,
                "published": row.published,
                "maxAge": row.max_age,
                "startAt": row.start_at,
                "endsAt": row.ends_at,
                "earlyFrom": row.early_from,
                "settlesAfter": row.settles_after,
                "voidsAfter": row.voids_after,
                "target": row.target,
                "bounds": [int(bound) for bound in row.bounds],
            }
            self._comparison.fields("agent terms", key, terms, more[-1])
        if not isinstance(answer, RpcError):
            await self._stakes(row, book, answer["stakes"])

    # ---------------------------------------------------------------- stakes

    async def _stakes(self, market: Any, book: Book, count: int) -> None:
        """Every id the contract gave out, against its row."""
        rows = await rows_by_key(self._connection, agent.STAKE, ("market_id",), [(market.market_id,)])
        rows.sort(key=lambda row: row.stake_id)
        stated = [market.index << 32 | n for n in range(count)]
        self._comparison.keys("stake", (row.stake_id for row in rows), stated)
        key = "0x" + market.market_id.hex()
        in_book = [row for row in rows if row.outcome is not None]
        self._comparison.value("agent market", key, "stakes in the book", market.stakes, len(in_book))
        self._comparison.value("agent market", key, "sum of stakes", market.staked, sum(row.amount for row in in_book))
        given_back = sum(row.paid_amount for row in rows if row.status == StakeStatus.REFUNDED)
        self._comparison.value("agent market", key, "sum of refunds", market.given_back, given_back)
        for at in range(0, len(rows), STAKES_AT_ONCE):
            some = rows[at : at + STAKES_AT_ONCE]
            await self._views(market, book, some)
            await self._payments(some)

    async def _views(self, market: Any, book: Book, rows: list[Any]) -> None:
        calls = []
        for row in rows:
            owner = address_text(row.wallet)
            calls += [
                self._wallet.call("stake", row.stake_id),
                self._wallet.call("stakeOf", owner, row.idem_hash),
                self._wallet.call("booked", owner, row.nonce),
            ]
        answers = await self._client.read_many(calls, self._block)
        cursor = await self._connection.execute(
            _FIRST_OF_KEY, ([row.wallet for row in rows], [row.idem_hash for row in rows])
        )
        first = {(bytes(wallet), bytes(idem)): stake_id for wallet, idem, stake_id in await cursor.fetchall()}
        for position, row in enumerate(rows):
            stated, under_key, booked = answers[3 * position : 3 * position + 3]
            payable = row.amount if row.status == StakeStatus.OWED_BACK else 0
            if row.status == StakeStatus.IN_BOOK and market.status != AgentMarketStatus.OPEN:
                payable = book.owed(market.winner, row.outcome, row.amount, row.shares)
            ours = {
                "marketId": row.market_id,
                "wallet": address_text(row.wallet),
                "status": row.status,
                "amount": row.amount,
                "fee": row.fee,
                "shares": row.shares,
                "payable_": payable,
            }
            if row.outcome is not None:
                ours["outcome"] = row.outcome
            self._comparison.fields("stake", row.stake_id, ours, stated)
            self._comparison.value("stake", row.stake_id, "stakeOf", first[row.wallet, row.idem_hash], under_key)
            # The receive form needs no record: nothing but the contract itself can take such a payment.
            self._comparison.value("stake", row.stake_id, "booked", not is_marked(row.nonce), booked)

    async def _payments(self, rows: list[Any]) -> None:
        """Each stake against the very authorization that paid for it, which `audit_shared` checks."""
        ids = [row.stake_id for row in rows]
        cursor = await self._connection.execute(_PAYMENTS, (self._sources.chain_id, ids))
        payments = {stake_id: tuple(rest) for stake_id, *rest in await cursor.fetchall()}
        recipient = self._sources.contracts[Role.WALLET]
        for row in rows:
            state, value, paid_to, in_time, stakes = payments[row.stake_id]
            ours = (PAID, row.amount, recipient, True, 1)
            brought = None if value is None else int(value)
            stated = (state, brought, None if paid_to is None else bytes(paid_to), in_time, stakes)
            self._comparison.value("stake", row.stake_id, "payment", ours, stated)

    # ---------------------------------------------------------------- what belongs to no market

    async def liabilities(self, owed: _Owed) -> None:
        """What is owed, by our sums and by the contract's; and that what nobody booked is still there."""
        # What was given back of stakes in books leaves `unpaid`, as does every late payment that was sent back.
        row = await (await self._connection.execute(_LIABILITIES)).fetchone()
        assert row is not None
        late, given_back, swept, paused = row
        ours = (owed.open_stakes, owed.unpaid + int(late) - int(given_back), owed.fees - int(swept))
        calls = [self._wallet.call("liabilities"), self._wallet.call("paused")]
        if Role.TOKEN in self._contracts:
            calls.append(self._contracts[Role.TOKEN].call("balanceOf", self._wallet.address))
        stated, paused_there, *more = await self._client.read_many(calls, self._block)
        self._comparison.value("wallet", "", "liabilities", ours, stated)
        self._comparison.value("wallet", "", "paused", paused, paused_there)
        if more and not isinstance(stated, RpcError) and not isinstance(more[0], RpcError):
            values = (self._sources.chain_id, self._sources.contracts[Role.WALLET])
            unbooked = await (await self._connection.execute(_UNBOOKED, values)).fetchone()
            assert unbooked is not None
            # Whoever sends the contract money in another way adds to what is there.
            left = more[0] - sum(stated)
            self._comparison.value("wallet", "", "unbooked money is there", left >= int(unbooked[0]), True)

    async def permissions(self) -> None:
        """Roles, feeds and bounds. That none is missing, `audit_shared` sees."""
        lister = self._contracts.get(Role.AGENT_LISTER)
        roles = await all_rows(self._connection, AGENT_ROLE)
        by_lister = [row for row in roles if row.role == LISTER]
        by_wallet = [row for row in roles if row.role != LISTER]
        calls = [self._wallet.call("hasRole", row.role, address_text(row.account)) for row in by_wallet]
        if lister is not None:
            calls += [lister.call("isLister", address_text(row.account)) for row in by_lister]
        answers = await self._client.read_many(calls, self._block)
        for row, answer in zip(by_wallet + by_lister, answers, strict=lister is not None):
            self._comparison.value("role", (row.role, row.account), "allowed", row.allowed, answer)
        if lister is not None:
            await self._listing(lister)

    async def _listing(self, lister: Contract) -> None:
        feeds = await all_rows(self._connection, AGENT_FEED)
        venues = await all_rows(self._connection, AGENT_VENUE)
        calls = [lister.call("bounds"), *(lister.call("feed", address_text(row.feed)) for row in feeds)]
        bounds, *answers = await self._client.read_many(calls, self._block)
        for row in venues:
            ours = {
                "feeBps": row.fee_bps,
                "minWeight": row.min_weight,
                "maxWeight": row.max_weight,
                "disputeWindow": row.dispute_window,
                "voidDelay": row.void_delay,
            }
            self._comparison.fields("bounds", "", ours, bounds)
        for row, answer in zip(feeds, answers, strict=True):
            ours = {
                "allowed": row.allowed,
                "condemned": row.condemned,
                "published": row.published,
                "memory_": row.memory,
                "maxAge": row.max_age,
                "lag": row.lag,
                "potCap": row.pot_cap,
                "step": row.step,
            }
            self._comparison.fields("agent feed", row.feed, ours, answer)
