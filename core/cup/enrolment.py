"""Enrolment of agents, who sign that they run themselves; the operator's own fleets; and the trading halt, from which
enrolled agents are exempt."""

from __future__ import annotations

from core.cup import Refusal
from core.db.engine import Connection

HALT_SWITCH = "cup_halted"

# A condition on a wallet `w`, with the switch's name as `halt`: its live trades are halted.
BARRED = (
    "(EXISTS (SELECT FROM operator_switch WHERE name = %(halt)s AND is_on) AND NOT EXISTS ("
    "SELECT FROM cup_enrolment e WHERE e.wallet = w AND NOT EXISTS ("
    "SELECT FROM cup_house_wallet h WHERE h.wallet = e.wallet)))"
)


async def enrol(connection: Connection, wallet: str, note: str, issued_at: str, signature: bytes) -> bool:
    """Enroll a wallet; return whether it is new (the first enrolment stands). House wallets are refused."""
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
    """Refuse while trading is halted, unless the wallet is enrolled (and not the house's)."""
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
