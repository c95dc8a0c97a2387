"""The tournament as one file of JSON Lines, from one database snapshot. The file is enough to recompute everything.

The first line names the format. The next lines hold account balances, enrolled wallets, markets, rounds with their
seeds, the ledger with the signed trades and bets in posting order, and the boards. Only settled rounds show their
seeds, since an open round's seed is a secret. The last line counts the lines before it, which reveals a truncated file.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from psycopg.rows import dict_row

from core.cup.ledger import snapshot
from core.db.engine import Connection
from core.hexadecimal import hex_of

FORMAT = "service-cup-export/1"
BATCH = 500

# The type of the lines and the query that selects them. Bytes are written as 0x hex, times as ISO-8601 in UTC.
_PARTS: tuple[tuple[str, str], ...] = (
    (
        "account",  # the mint owes what all others hold
        "SELECT account, CASE account WHEN 'mint' THEN -(SELECT sum(balance_cents)::bigint FROM cup_account)"
        " ELSE balance_cents END AS balance_cents FROM cup_account ORDER BY account",
    ),
    ("enrolment", "SELECT wallet, issued_at, signature FROM cup_enrolment ORDER BY wallet"),
    (
        "market",
        "SELECT slug, market_key, market_id, kind, outcomes, weights_cents, net_cents, shares_cents, trades, opens_at,"
        " closes_at, start_at, ends_at, status, winner, settled_at FROM cup_market ORDER BY slug",
    ),
    (
        "round",
        "SELECT round_no, CASE WHEN settled_at IS NOT NULL THEN seed END AS seed, commitment, opens_at, closes_at,"
        " ends_at, chain_id, beacon_after, beacon_number, beacon_hash, pocket, settled_at, bets_hash"
        " FROM cup_round ORDER BY round_no",
    ),
    (
        "transaction",
        "SELECT t.id, t.kind, t.key, t.at, (SELECT jsonb_object_agg(e.account, e.amount_cents) FROM cup_entry e "
        "WHERE e.transaction_id = t.id) AS entries FROM cup_transaction t ORDER BY t.id",
    ),
    (
        "trade",
        "SELECT transaction_id, trade_id, wallet, slug, outcome, size_cents, shares_cents, issued_at, signature, at"
        " FROM cup_trade ORDER BY transaction_id",
    ),
    (
        "bet",
        "SELECT transaction_id, round_no, wallet, bet_key, stake_cents, issued_at, signature, status, paid_cents, at"
        " FROM cup_bet ORDER BY transaction_id",
    ),
    (
        "position",
        "SELECT wallet, slug, outcome, cost_cents, shares_cents, status, paid_cents FROM cup_position"
        " ORDER BY slug, wallet, outcome",
    ),
    (
        "score",
        "SELECT period, wallet, -debit_cents AS score_cents, reached_at FROM cup_score"
        " ORDER BY period, debit_cents, reached_at, wallet",
    ),
)


async def lines(connection: Connection) -> AsyncGenerator[bytes]:
    """Yield the file in chunks of whole lines. `connection` must be in autocommit and must not be shared."""
    count = 1
    async with snapshot(connection):
        yield _line("export", {"format": FORMAT, "at": datetime.now(UTC)})
        for kind, query in _PARTS:
            async with connection.cursor(name=f"cup_{kind}", row_factory=dict_row) as cursor:
                await cursor.execute(query.encode())
                while rows := await cursor.fetchmany(BATCH):
                    yield b"".join(_line(kind, row) for row in rows)
                    count += len(rows)
    yield _line("end", {"lines": count})


def _line(kind: str, row: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, **row}, default=_hex, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z)


def _hex(value: object) -> str:
    if isinstance(value, bytes):
        return hex_of(value)
    raise TypeError(f"{type(value).__name__} cannot be exported")
