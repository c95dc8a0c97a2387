"""The ledger of paper money, and who may use it: claims, and enrolment, which trading requires during a halt.

Amounts move in transactions. A transaction's entries sum to zero, and its key prevents it from being posted twice.
Triggers enforce the invariants: they refuse unbalanced transactions, update the balances, let only the mint's balance
go negative, and refuse changes to existing rows (core/db/migrations/baseline/2_cup.sql). All functions here work in the
caller's transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

from core.cup import CLAIM_CENTS, Refusal
from core.db.engine import Connection

MINT = "mint"


@asynccontextmanager
async def snapshot(connection: Connection) -> AsyncIterator[None]:
    """Run a read-only transaction in which all reads see one snapshot."""
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
    """Open an account, and return whether it is new. Wait if another transaction is opening the same account."""
    cursor = await connection.execute(
        "INSERT INTO cup_account (account) VALUES (%s) ON CONFLICT DO NOTHING", (account,)
    )
    return cursor.rowcount == 1


async def balance(connection: Connection, account: str) -> int | None:
    """Return an account's balance in cents, or None if the account was never opened."""
    cents: int | None = await connection.fetch_value(
        "SELECT balance_cents FROM cup_account WHERE account = %s", (account,)
    )
    return cents


async def lock_wallets(connection: Connection, wallets: Sequence[str]) -> None:
    """Lock the wallets. All callers lock in the same order, so they cannot deadlock."""
    await connection.execute(
        "SELECT 1 FROM cup_account WHERE account = ANY(%s) ORDER BY account FOR NO KEY UPDATE",
        ([wallet_account(wallet) for wallet in wallets],),
    )


async def lock_free_wallets(connection: Connection, wallets: Collection[str]) -> dict[str, int]:
    """Lock the wallets that no other transaction has locked, without waiting for the others. Return the locked wallets'
    balances."""
    balances: list[tuple[str, int]] = await connection.fetch_all(
        "SELECT substr(account, 8), balance_cents FROM cup_account WHERE account = ANY(%s) "
        "FOR NO KEY UPDATE SKIP LOCKED",
        ([wallet_account(wallet) for wallet in wallets],),
    )
    return dict(balances)


async def post(connection: Connection, kind: str, key: str, entries: Mapping[str, int]) -> int:
    """Post a transaction and return its id. Entries with a zero amount are left out.

    Raise psycopg.errors.UniqueViolation if `key` was posted before, and CheckViolation if a balance would go negative.
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
    """Pay wallets from an account that holds `pool` cents. The remainder of the pool goes back to the mint."""
    await lock_wallets(connection, sorted(paid))
    entries = {wallet_account(wallet): cents for wallet, cents in paid.items()}
    await post(connection, kind, key, entries | {account: -pool, MINT: pool - sum(paid.values())})


# ---------------------------------------------------------------- claims


async def claim(connection: Connection, wallet: str) -> tuple[int, bool]:
    """Mint the wallet's initial balance unless it was minted before. Return the balance, and whether this call minted
    it."""
    account = wallet_account(wallet)
    async with connection.transaction():
        minted = await open_account(connection, account)
        if minted:
            await post(connection, "claim", wallet, {account: CLAIM_CENTS, MINT: -CLAIM_CENTS})
        balance_cents = await balance(connection, account)
    assert balance_cents is not None
    return balance_cents, minted


# ---------------------------------------------------------------- enrolment
#
# Agents sign that they run themselves. While live trading is halted, only enrolled agents trade; the operator's own
# wallets cannot enroll.

HALT_SWITCH = "cup_halted"

# A condition on a wallet `w`, with the switch's name as `halt`: its live trades are halted.
BARRED = (
    "(EXISTS (SELECT FROM operator_switch WHERE name = %(halt)s AND is_on) AND NOT EXISTS ("
    "SELECT FROM cup_enrolment e WHERE e.wallet = w AND NOT EXISTS ("
    "SELECT FROM cup_house_wallet h WHERE h.wallet = e.wallet)))"
)


async def enrol(connection: Connection, wallet: str, note: str, issued_at: str, signature: bytes) -> bool:
    """Enroll a wallet, and return whether it is new. Keep an existing enrolment. Raise a Refusal for a house wallet."""
    async with connection.transaction():
        if await connection.fetch_one("SELECT 1 FROM cup_house_wallet WHERE wallet = %s", (wallet,)) is not None:
            raise Refusal(
                403, "house_fleet_wallet", "This wallet belongs to one of the operator's own fleets and cannot enroll."
            )
        cursor = await connection.execute(
            "INSERT INTO cup_enrolment (wallet, note, issued_at, signature) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT DO NOTHING",
            (wallet, note, issued_at, signature),
        )
    return cursor.rowcount == 1


async def is_enrolled(connection: Connection, wallet: str) -> bool:
    return await connection.fetch_one("SELECT 1 FROM cup_enrolment WHERE wallet = %s", (wallet,)) is not None


async def trading_halted(connection: Connection) -> bool:
    return bool(await connection.fetch_value("SELECT is_on FROM operator_switch WHERE name = %s", (HALT_SWITCH,)))


async def require_may_trade(connection: Connection, wallet: str) -> None:
    """While trading is halted, raise a Refusal for any wallet that is not enrolled and for any house wallet."""
    query = f"SELECT {BARRED} FROM (SELECT %(wallet)s::text AS w) AS u"  # noqa: S608
    if await connection.fetch_value(query.encode(), {"wallet": wallet, "halt": HALT_SWITCH}) is not False:
        raise halted()


def halted() -> Refusal:
    return Refusal(
        503,
        "cup_agent_trades_halted",
        "Live trading is halted for wallets that are not enrolled. Enroll this wallet (POST /agent/enroll) and "
        "send the same request again. Reads and simulations still work, and your balance and bets are unchanged.",
    )
