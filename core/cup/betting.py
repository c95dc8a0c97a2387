"""Roulette bets. A wallet can place one bet per round and bet key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from psycopg.errors import UniqueViolation

from core.cup import PaperStatus, Refusal, ledger, number_of, rounds, text_of, wheel
from core.cup.ledger import require_may_trade, round_account, wallet_account
from core.cup.rounds import RouletteRound
from core.cup.trading import WalletBusy, require_funds
from core.db.engine import Connection

_BOUNDS_CENTS = {
    "minBet": wheel.MIN_BET_CENTS,
    "maxBet": wheel.MAX_BET_CENTS,
    "maxRoundTotal": wheel.MAX_ROUND_CENTS,
}


def bounds() -> dict[str, Decimal]:
    """Return the bet bounds in pUSDC, keyed by name."""
    return {name: number_of(cents) for name, cents in _BOUNDS_CENTS.items()}


@dataclass(frozen=True, slots=True)
class RouletteBet:
    """A bet whose signature has been verified."""

    wallet: str
    round_no: int
    bet_key: str
    stake_cents: int
    issued_at: str
    signature: bytes


@dataclass(frozen=True, slots=True)
class BetReceipt:
    round_no: int
    bet_key: str
    stake_cents: int
    balance_cents: int
    replay: bool = False


@dataclass(frozen=True, slots=True)
class PlacedBet:
    bet_key: str
    stake_cents: int
    status: PaperStatus
    payout_cents: int


@dataclass(frozen=True, slots=True)
class RoundTotals:
    """The cents staked on each bet key of a round (`pools`), and each wallet's number of bets (`bets`)."""

    pools: Mapping[str, int]
    bets: Mapping[str, int]

    def market_pool(self, market: wheel.WheelMarket) -> int:
        return sum(self.pools.get(outcome.key, 0) for outcome in market.outcomes)


def require_key(bet_key: str) -> None:
    if bet_key not in wheel.OUTCOMES:
        raise Refusal(
            422,
            "invalid_bet_key",
            "No outcome has this key; GET /roulette lists the keys.",
            {"validKeys": list(wheel.OUTCOMES)},
        )


def require_bounds(stake_cents: int) -> None:
    if not wheel.MIN_BET_CENTS <= stake_cents <= wheel.MAX_BET_CENTS:
        raise _out_of_bounds(
            f"A bet must be between {text_of(wheel.MIN_BET_CENTS)} and {text_of(wheel.MAX_BET_CENTS)} pUSDC."
        )


def round_closed(round_no: int, live: RouletteRound | None) -> Refusal:
    message = "Betting on this round has ended, or it is not the live round; GET /roulette shows the live round."
    return Refusal(409, "round_closed", message, {"roundNo": round_no, "liveRoundNo": live.round_no if live else None})


async def round_totals(connection: Connection, round_no: int) -> RoundTotals:
    pools: list[tuple[str, int]] = await connection.fetch_all(
        "SELECT bet_key, sum(stake_cents)::bigint FROM cup_bet WHERE round_no = %s GROUP BY bet_key", (round_no,)
    )
    bets: list[tuple[str, int]] = await connection.fetch_all(
        "SELECT wallet, count(*) FROM cup_bet WHERE round_no = %s GROUP BY wallet", (round_no,)
    )
    return RoundTotals(dict(pools), dict(bets))


async def bets_of(connection: Connection, round_no: int, wallet: str) -> list[PlacedBet]:
    rows = await connection.fetch_all(
        "SELECT bet_key, stake_cents, status, paid_cents FROM cup_bet WHERE round_no = %s AND wallet = %s "
        "ORDER BY transaction_id",
        (round_no, wallet),
    )
    return [PlacedBet(*row) for row in rows]


async def find_receipt(connection: Connection, bet: RouletteBet) -> BetReceipt | None:
    """Return the receipt of this wallet's earlier bet on the same round and bet key, or None. Raise a Refusal if the
    earlier bet had a different stake."""
    row = await connection.fetch_one(
        "SELECT stake_cents, balance_cents FROM cup_bet WHERE round_no = %s AND wallet = %s AND bet_key = %s",
        (bet.round_no, bet.wallet, bet.bet_key),
    )
    if row is None:
        return None
    if row[0] != bet.stake_cents:
        raise Refusal(
            409,
            "bet_conflict",
            f"This wallet already has {text_of(row[0])} pUSDC on this key in this round; a bet cannot be changed.",
        )
    return BetReceipt(bet.round_no, bet.bet_key, bet.stake_cents, row[1], replay=True)


async def place(connection: Connection, bet: RouletteBet, clock: Callable[[], datetime]) -> BetReceipt:
    """Place the bet. If it was placed before, return the original receipt.

    The clock is read after taking the locks, so a bet that waited past the round's close is refused. The clock itself
    raises a Refusal after the tournament's close.

    Raise WalletBusy if another transaction has locked the wallet. A settlement locks many wallets for a long time, and
    waiting for it would tie up a connection that other callers need.
    """
    try:
        async with connection.transaction():
            return await _place(connection, bet, clock)
    except UniqueViolation:
        done = await find_receipt(connection, bet)
        if done is None:
            raise
        return done


async def _place(connection: Connection, bet: RouletteBet, clock: Callable[[], datetime]) -> BetReceipt:
    # A late bet takes no lock: settlement waits for all holders of the round's shared lock, and late bets may keep
    # coming.
    round_ = await rounds.find(connection, bet.round_no)
    if round_ is None or not round_.takes_bets(clock()):
        return await _too_late(connection, bet)
    round_ = await rounds.find(connection, bet.round_no, "FOR SHARE")
    account = wallet_account(bet.wallet)
    balance_cents = await _locked_balance(connection, bet.wallet)
    done = await find_receipt(connection, bet)
    if done is not None:
        return done
    now = clock()
    if round_ is None or not round_.takes_bets(now):
        return await _too_late(connection, bet)
    await _require_allowed(connection, bet, balance_cents)
    transaction = await ledger.post(
        connection,
        "bet",
        f"{bet.round_no}:{bet.wallet}:{bet.bet_key}",
        {account: -bet.stake_cents, round_account(bet.round_no): bet.stake_cents},
    )
    left = balance_cents - bet.stake_cents
    await connection.execute(
        "INSERT INTO cup_bet (round_no, wallet, bet_key, transaction_id, stake_cents, issued_at, signature,"
        " balance_cents, at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            bet.round_no,
            bet.wallet,
            bet.bet_key,
            transaction,
            bet.stake_cents,
            bet.issued_at,
            bet.signature,
            left,
            now,
        ),
    )
    return BetReceipt(bet.round_no, bet.bet_key, bet.stake_cents, left)


async def _locked_balance(connection: Connection, wallet: str) -> int:
    """Lock a wallet until this transaction ends and return its balance, or 0 if the wallet never claimed."""
    free = await ledger.lock_free_wallets(connection, [wallet])
    if wallet not in free and await ledger.balance(connection, wallet_account(wallet)) is not None:
        raise WalletBusy
    return free.get(wallet, 0)


async def _too_late(connection: Connection, bet: RouletteBet) -> BetReceipt:
    """Return the receipt if the bet was placed before; otherwise raise the `round_closed` Refusal."""
    done = await find_receipt(connection, bet)
    if done is None:
        raise round_closed(bet.round_no, await rounds.latest(connection))
    return done


async def require_allowed(connection: Connection, bet: RouletteBet, balance_cents: int) -> None:
    """Raise a Refusal if a wallet with this balance may not place the bet on the live round. The bet's signature is not
    checked."""
    if await find_receipt(connection, bet) is None:
        await _require_allowed(connection, bet, balance_cents)


async def _require_allowed(connection: Connection, bet: RouletteBet, balance_cents: int) -> None:
    await require_may_trade(connection, bet.wallet)
    already: int = await connection.fetch_value(
        "SELECT COALESCE(sum(stake_cents), 0)::bigint FROM cup_bet WHERE round_no = %s AND wallet = %s",
        (bet.round_no, bet.wallet),
    )
    if already + bet.stake_cents > wheel.MAX_ROUND_CENTS:
        raise _out_of_bounds(
            f"A wallet can bet at most {text_of(wheel.MAX_ROUND_CENTS)} pUSDC on one round; "
            f"this one has already bet {text_of(already)}."
        )
    require_funds(balance_cents, bet.stake_cents)


def _out_of_bounds(message: str) -> Refusal:
    return Refusal(422, "stake_out_of_bounds", message, {"bounds": bounds()})
