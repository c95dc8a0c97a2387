"""The agent side's audit: SettlementWallet against the agent tables."""

from __future__ import annotations

from typing import Any

from core.chain import ChainClient, Contract
from core.mirror.settlement import Book
from core.projections.stock import address_text
from indexer.audit.compare import Comparison
from indexer.fold import agent
from indexer.fold.agent import IN_BOOK, OPEN, OWED_BACK, RESOLVED, VOID
from indexer.store.tables import Connection, rows_by_key

MARKETS_AT_ONCE = 50
STAKES_AT_ONCE = 500


async def audit_agent(
    connection: Connection, client: ChainClient, wallet: Contract, block: str, found: Comparison
) -> None:
    """`block` is the cursor's hash."""
    owed = _Owed()
    ids = await (
        await connection.execute("SELECT market_id FROM agent_market ORDER BY listed_block, listed_log_index")
    ).fetchall()
    count = await client.read(wallet.call("marketCount"), block)
    found.value("wallet", "", "marketCount", len(ids), count)
    for at in range(0, len(ids), MARKETS_AT_ONCE):
        some = ids[at : at + MARKETS_AT_ONCE]
        books: dict[bytes, list[Any]] = {}
        for outcome in await rows_by_key(connection, agent.OUTCOME, ("market_id",), some):
            books.setdefault(outcome.market_id, []).append(outcome)
        for row in await rows_by_key(connection, agent.MARKET, ("market_id",), some):
            outcomes = sorted(books[row.market_id], key=lambda each: each.outcome)
            book = Book(
                row.virtual_liquidity,
                row.fee_bps,
                tuple(each.net for each in outcomes),
                tuple(each.shares for each in outcomes),
            )
            await _market(client, wallet, row, book, block, found)
            await _stakes(connection, client, wallet, row, book, block, found)
            owed.add(row, book)
    await _venue(connection, client, wallet, owed, block, found)


class _Owed:
    """What the contract owes, summed over the markets; late payments are summed by the database."""

    def __init__(self) -> None:
        self.open_stakes = 0
        self.unpaid = 0
        self.fees = 0

    def add(self, row: Any, book: Book) -> None:
        if row.status == OPEN:
            self.open_stakes += row.staked
        elif book.refunds(row.winner):
            self.unpaid += row.staked
        else:
            self.fees += row.staked - row.net_pool
            if row.paid_shares == book.shares[row.winner]:
                self.fees += row.net_pool - row.paid_out  # every winner is paid: the dust is nobody's
            else:
                self.unpaid += row.net_pool - row.paid_out


async def _market(client: ChainClient, wallet: Contract, row: Any, book: Book, block: str, found: Comparison) -> None:
    calls = [wallet.call("market", row.market_id)]
    calls += [wallet.call("outcomeBook", row.market_id, outcome) for outcome in range(row.outcomes)]
    answer, *outcome_answers = await client.read_many(calls, block)
    key = "0x" + row.market_id.hex()
    ours = {
        "status": row.status,
        "winner": row.winner or 0,
        "refunding": row.status == VOID or (row.status == RESOLVED and book.refunds(row.winner)),
        "stakes": row.stakes + row.late_payments,
        "staked": row.staked,
        "netPool": row.net_pool,
        "paidOut": row.paid_out,
    }
    found.fields("agent market", key, ours, answer)
    spec = {
        "kind": row.kind,
        "feed": address_text(row.feed),
        "target": row.target,
        "bounds": [int(bound) for bound in row.bounds],
        "earlyResolvable": row.early_resolvable,
        "opensAt": row.opens_at,
        "closesAt": row.closes_at,
        "startAt": row.start_at,
        "maxAge": row.max_age,
        "voidDelay": row.void_delay,
        "feeBps": row.fee_bps,
        "outcomes": row.outcomes,
        "virtualLiquidity": row.virtual_liquidity,
    }
    found.fields("agent spec", key, spec, answer["spec"] if isinstance(answer, dict) else answer)
    for outcome, stated in enumerate(outcome_answers):
        ours_book = (book.net[outcome], book.shares[outcome], book.weight(outcome), book.price(outcome))
        found.value("outcome book", f"{key}/{outcome}", "all", ours_book, stated)


async def _stakes(
    connection: Connection,
    client: ChainClient,
    wallet: Contract,
    market: Any,
    book: Book,
    block: str,
    found: Comparison,
) -> None:
    rows = await rows_by_key(connection, agent.STAKE, ("market_id",), [(market.market_id,)])
    for at in range(0, len(rows), STAKES_AT_ONCE):
        some = rows[at : at + STAKES_AT_ONCE]
        answers = await client.read_many([wallet.call("stake", row.stake_id) for row in some], block)
        for row, answer in zip(some, answers, strict=True):
            payable = row.amount if row.status == OWED_BACK else 0
            if row.status == IN_BOOK and market.status != OPEN:
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
            found.fields("stake", row.stake_id, ours, answer)


async def _venue(
    connection: Connection, client: ChainClient, wallet: Contract, owed: _Owed, block: str, found: Comparison
) -> None:
    # What was given back of stakes in books leaves `unpaid`, as does every late payment that was sent back.
    row = await (
        await connection.execute(
            "SELECT coalesce(sum(amount) FILTER (WHERE status = 2), 0),"
            " coalesce(sum(amount) FILTER (WHERE status = 4 AND refund_reason IS NULL), 0),"
            " (SELECT coalesce(sum(fees_swept), 0) FROM agent_venue),"
            " (SELECT coalesce(bool_or(stakes_paused), false) FROM agent_venue) FROM agent_stake"
        )
    ).fetchone()
    assert row is not None
    late, given_back, swept, paused = row
    ours = (owed.open_stakes, owed.unpaid + int(late) - int(given_back), owed.fees - int(swept))
    liabilities, paused_there = await client.read_many([wallet.call("liabilities"), wallet.call("stakesPaused")], block)
    found.value("wallet", "", "liabilities", ours, liabilities)
    found.value("wallet", "", "stakesPaused", paused, paused_there)
