"""Roulette rounds. A round opens with a commitment to its seed and closes at a fixed time. It is then drawn with the
hash of a later block, the beacon, and settled.

The operator knows the seed, and could add a bet once the beacon is known. To prevent this, the hash of a round's bets
is published at its close, and the beacon is a block at least two seconds later. Anyone who saw the hash can check the
exported bets against it. The beacon does not wait for a late hash. Otherwise, the operator could choose the beacon by
publishing the hash late.

A round takes bets for 45 s and spins for 5 s. The next round opens when the spin is over and the round is settled. If
the keeper dies or the chain halts, an unfinished round stays in `spin` until any keeper finishes it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from core.cup import board, ledger, wheel
from core.cup.ledger import open_account, round_account
from core.db.engine import Connection

BETTING: Final = timedelta(seconds=45)
SPIN: Final = timedelta(seconds=5)
HASHED_WITHIN_SECONDS: Final = 2
"""Seconds from the close to the earliest beacon, in which the hash of the bets is published."""

_COLUMNS = (
    "round_no, seed, commitment, opens_at, closes_at, ends_at, chain_id, head_number, beacon_after, beacon_number, "
    "beacon_hash, pocket, settled_at, bets_hash"
)


RoundPhase = Literal["bet", "spin", "settled"]


@dataclass(frozen=True, slots=True)
class RouletteRound:
    """A round of roulette. `seed` is secret until the round is settled. `beacon_after` is chain time in Unix
    seconds."""

    round_no: int
    seed: bytes
    commitment: bytes
    opens_at: datetime
    closes_at: datetime
    ends_at: datetime
    chain_id: int
    head_number: int
    beacon_after: int
    beacon_number: int | None
    beacon_hash: bytes | None
    pocket: int | None
    settled_at: datetime | None
    bets_hash: bytes | None
    """Published at the close; no bets are accepted afterwards."""

    def phase(self, now: datetime) -> RoundPhase:
        """Return the phase: `bet`, `spin` or `settled`. The phase `settled` lasts until the next round opens. The
        pocket is shown as soon as it is drawn."""
        if self.settled_at is None and now < self.closes_at:
            return "bet"
        if self.settled_at is None or now < self.ends_at:
            return "spin"
        return "settled"

    def takes_bets(self, now: datetime) -> bool:
        return self.phase(now) == "bet" and self.bets_hash is None


async def _rounds(connection: Connection, which: str, *values: int) -> list[RouletteRound]:
    query = f"SELECT {_COLUMNS} FROM cup_round {which}"  # noqa: S608 - constants only
    return [RouletteRound(*row) for row in await connection.fetch_all(query.encode(), values)]


async def latest(connection: Connection) -> RouletteRound | None:
    return next(iter(await _rounds(connection, "ORDER BY round_no DESC LIMIT 1")), None)


async def settled(connection: Connection, limit: int) -> list[RouletteRound]:
    """Return the latest `limit` rounds with a result, newest first."""
    return await _rounds(connection, "WHERE settled_at IS NOT NULL ORDER BY round_no DESC LIMIT %s", limit)


async def find(
    connection: Connection, round_no: int, lock: Literal["", "FOR SHARE", "FOR UPDATE"] = ""
) -> RouletteRound | None:
    """Return the round, or None if it does not exist. A bet locks the round FOR SHARE, a settlement FOR UPDATE."""
    return next(iter(await _rounds(connection, f"WHERE round_no = %s {lock}", round_no)), None)


async def open_next(
    connection: Connection, now: datetime, chain_id: int, head_number: int, head_time: int
) -> RouletteRound | None:
    """Open the next round, or return None if a round is live.

    The beacon is at least two seconds after the close in chain time. If the chain's clock is ahead of this machine's,
    as on a local chain with warped time, the close in chain time is the time of the chain's head plus the betting time.
    """
    seed = secrets.token_bytes(32)
    closes_at = now + BETTING
    close_on_chain = max(-int(-closes_at.timestamp() // 1), head_time + int(BETTING.total_seconds()))
    beacon_after = close_on_chain + HASHED_WITHIN_SECONDS
    async with connection.transaction():
        last = await latest(connection)
        if last is not None and last.phase(now) != "settled":
            return None
        round_no = 1 if last is None else last.round_no + 1
        # If another keeper does the same now, unique indexes (the number, one live round) let only one succeed.
        cursor = await connection.execute(
            "INSERT INTO cup_round (round_no, seed, commitment, opens_at, closes_at, ends_at, chain_id, head_number,"
            " beacon_after) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (
                round_no,
                seed,
                wheel.commitment_of(seed),
                now,
                closes_at,
                closes_at + SPIN,
                chain_id,
                head_number,
                beacon_after,
            ),
        )
        if cursor.rowcount == 0:
            return None
        await open_account(connection, round_account(round_no))
        return await latest(connection)


async def close(connection: Connection, round_no: int, clock: Callable[[], datetime]) -> RouletteRound | None:
    """Publish the hash of a round's bets. Return None if the round still accepts bets or the hash was already
    published."""
    async with connection.transaction():
        # Waits for bets that hold the shared lock; later ones see the hash and are refused.
        round_ = await find(connection, round_no, "FOR UPDATE")
        if round_ is None or round_.bets_hash is not None or clock() < round_.closes_at:
            return None
        return await _with_hash(connection, round_)


async def _with_hash(connection: Connection, round_: RouletteRound) -> RouletteRound:
    bets = await connection.fetch_all(
        "SELECT wallet, bet_key, stake_cents FROM cup_bet WHERE round_no = %s", (round_.round_no,)
    )
    hashed = wheel.bets_hash(round_.round_no, [wheel.WheelStake(*row) for row in bets])
    await connection.execute("UPDATE cup_round SET bets_hash = %s WHERE round_no = %s", (hashed, round_.round_no))
    return replace(round_, bets_hash=hashed)


async def finish(
    connection: Connection, round_no: int, beacon_number: int, beacon_hash: bytes, clock: Callable[[], datetime]
) -> RouletteRound | None:
    """Draw the pocket and pay the bets. Return None if the round was settled before or still accepts bets.

    The result counts for the week in which it is paid, even if the round closed in an earlier week and the transaction
    then waited for locked wallets.
    """
    async with connection.transaction():
        round_ = await find(connection, round_no, "FOR UPDATE")
        if round_ is None or round_.settled_at is not None or clock() < round_.closes_at:
            return None
        if round_.bets_hash is None:  # no keeper was running at the close
            round_ = await _with_hash(connection, round_)
        pocket = wheel.pocket_of(round_.seed, round_no, beacon_hash)
        gains = await _pay(connection, round_no, pocket)
        now = clock()
        await board.record(connection, gains, now)
        await connection.execute(
            "UPDATE cup_round SET beacon_number = %s, beacon_hash = %s, pocket = %s, settled_at = %s "
            "WHERE round_no = %s",
            (beacon_number, beacon_hash, pocket, now, round_no),
        )
    return replace(round_, beacon_number=beacon_number, beacon_hash=beacon_hash, pocket=pocket, settled_at=now)


async def _pay(connection: Connection, round_no: int, pocket: int) -> dict[str, int]:
    """Pay the round's bets, and return each wallet's change in score, in cents."""
    bets = await connection.fetch_all(
        "SELECT wallet, bet_key, stake_cents, at FROM cup_bet WHERE round_no = %s ORDER BY wallet, bet_key", (round_no,)
    )
    stakes: list[wheel.WheelStake] = []
    first: dict[str, datetime] = {}
    for wallet, bet_key, cents, at in bets:
        stakes.append(wheel.WheelStake(wallet, bet_key, cents))
        first[wallet] = min(at, first.get(wallet, at))
    if not stakes:
        return {}
    results = wheel.settle(stakes, pocket)
    paid: dict[str, int] = {}
    for each in results:
        wallet = each.stake.wallet
        paid[wallet] = paid.get(wallet, 0) + each.paid_cents
    pool = sum(stake.cents for stake in stakes)
    await ledger.pay_out(connection, "round", str(round_no), round_account(round_no), pool, paid)
    await connection.execute(
        "UPDATE cup_bet b SET status = u.s, paid_cents = u.p "
        "FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]) AS u(w, k, s, p) "
        "WHERE b.round_no = %s AND b.wallet = u.w AND b.bet_key = u.k",
        (
            [each.stake.wallet for each in results],
            [each.stake.bet_key for each in results],
            [each.status for each in results],
            [each.paid_cents for each in results],
            round_no,
        ),
    )
    pools = board.wheel_pools(results)
    return board.score_changes(pools, await board.find_seasoned(connection, pools, first))
