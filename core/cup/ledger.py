"""The ledger: amounts move in transactions that sum to zero, each once by its key.

The database enforces what must always be true, apart from this code: it refuses an unbalanced transaction, moves the
balances itself, lets only the mint owe, and changes no row that was written (core/db/migrations/baseline/2_cup.sql).
All functions here work inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

from core.db.engine import Connection

MINT = "mint"


@asynccontextmanager
async def one_moment(connection: Connection) -> AsyncIterator[None]:
    """Read everything inside at one moment."""
    async with connection.transaction():
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def wallet_account(wallet: str) -> str:
    return f"wallet:{wallet}"


def market_account(slug: str) -> str:
    return f"market:{slug}"


def round_account(round_no: int) -> str:
    return f"round:{round_no}"


async def open_account(connection: Connection, account: str) -> bool:
    """Open an account; return True when it is new. Waits for another transaction that is opening it."""
    cursor = await connection.execute(
        "INSERT INTO cup_account (account) VALUES (%s) ON CONFLICT DO NOTHING", (account,)
    )
    return cursor.rowcount == 1


async def balance(connection: Connection, account: str) -> int | None:
    """Return an account's cents, or None if it was never opened."""
    cents: int | None = await connection.fetch_value(
        "SELECT balance_cents FROM cup_account WHERE account = %s", (account,)
    )
    return cents


async def lock_wallets(connection: Connection, wallets: Sequence[str]) -> None:
    """Lock all of them, in the same order everywhere."""
    await connection.execute(
        "SELECT 1 FROM cup_account WHERE account = ANY(%s) ORDER BY account FOR NO KEY UPDATE",
        ([wallet_account(wallet) for wallet in wallets],),
    )


async def lock_free_wallets(connection: Connection, wallets: Collection[str]) -> dict[str, int]:
    """Lock the wallets that are free, without waiting for the others; return the balance of each."""
    balances: list[tuple[str, int]] = await connection.fetch_all(
        "SELECT substr(account, 8), balance_cents FROM cup_account WHERE account = ANY(%s) "
        "FOR NO KEY UPDATE SKIP LOCKED",
        ([wallet_account(wallet) for wallet in wallets],),
    )
    return dict(balances)


async def post(connection: Connection, kind: str, key: str, entries: Mapping[str, int]) -> int:
    """Write one transaction without its zero amounts; return its id.

    psycopg.errors.UniqueViolation when `key` was posted before; CheckViolation when it would leave an account owing.
    """
    moving = {account: cents for account, cents in entries.items() if cents}
    posted: int = await connection.fetch_value(
        "INSERT INTO cup_transaction (kind, key) VALUES (%s, %s) RETURNING id", (kind, f"{kind}:{key}")
    )
    if moving:
        await connection.execute(
            "INSERT INTO cup_entry (transaction_id, account, amount_cents) "
            "SELECT %s, a, c FROM unnest(%s::text[], %s::bigint[]) AS u(a, c)",
            (posted, list(moving), list(moving.values())),
        )
    return posted


async def pay_out(
    connection: Connection, kind: str, key: str, account: str, pool: int, paid: Mapping[str, int]
) -> None:
    """Pay wallets out of an account that holds `pool`; what they do not get goes back to the mint."""
    await lock_wallets(connection, sorted(paid))
    entries = {wallet_account(wallet): cents for wallet, cents in paid.items()}
    await post(connection, kind, key, entries | {account: -pool, MINT: pool - sum(paid.values())})
