"""How much of a result counts on the board. The ledger moves all money; only the score is limited here.

Wallets are free, so if all profit counted, the player with the most wallets would win by losing to one of them.
Losses count in full. A win in a pool (a paper market, or one of the wheel's markets in a round) counts in full if at
least SEASONED wallets that lost in that pool had traded or bet on an earlier day (UTC) than that of their first stake
in it; otherwise it counts up to the wallet's own stake in the pool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from core.cup import wheel
from core.cup.wheel import SettledStake
from core.db.engine import Connection

SEASONED: Final = 3
RULE: Final = (
    "The score is realized profit. What a wallet wins in a pool (a paper market, or one market of a roulette round) "
    f"counts up to its own stake there, and in full if at least {SEASONED} of the wallets that lost in that pool had "
    "traded or bet on an earlier day (UTC). Losses count in full."
)

# (staked, paid) in cents by wallet.
WagerPool = Mapping[str, tuple[int, int]]


def wheel_pools(results: Iterable[SettledStake]) -> list[WagerPool]:
    """Return the pools of a round, without refunded ones."""
    pools: dict[str, dict[str, tuple[int, int]]] = {}
    for each in results:
        if each.status == "refunded":
            continue
        pool = pools.setdefault(wheel.MARKET_OF_KEY[each.stake.bet_key].id, {})
        staked, paid = pool.get(each.stake.wallet, (0, 0))
        pool[each.stake.wallet] = (staked + each.stake.cents, paid + each.paid_cents)
    return list(pools.values())


def score_changes(pools: Iterable[WagerPool], seasoned: Collection[str]) -> dict[str, int]:
    """Return each wallet's change of score in cents. `seasoned`: wallets that had traded on an earlier day."""
    gains: dict[str, int] = {}
    for pool in pools:
        whole = sum(paid < staked and wallet in seasoned for wallet, (staked, paid) in pool.items()) >= SEASONED
        for wallet, (staked, paid) in pool.items():
            gain = paid - staked
            gains[wallet] = gains.get(wallet, 0) + (gain if whole else min(gain, staked))
    return gains


def day_of(moment: datetime) -> datetime:
    """Return the start of the UTC day."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


async def find_seasoned(connection: Connection, pools: Iterable[WagerPool], first: Mapping[str, datetime]) -> set[str]:
    """Return losing wallets that had traded or bet on an earlier day, as many per pool as `score_changes` needs.

    first: when each wallet first staked in what is being settled. Each wallet is looked up only once, since a round has
    42 pools.
    """
    veterans: set[str] = set()
    fresh: set[str] = set()
    for pool in pools:
        if all(paid <= 2 * staked for staked, paid in pool.values()):
            continue  # no gain exceeds its stake, so nothing is limited
        losers = {wallet for wallet, (staked, paid) in pool.items() if paid < staked}
        needed = SEASONED - len(losers & veterans)
        asked = sorted(losers - veterans - fresh)
        if needed <= 0 or not asked:
            continue
        known = await connection.fetch_all(
            "SELECT w FROM unnest(%s::text[], %s::timestamptz[]) AS u(w, day)"
            " WHERE EXISTS (SELECT FROM cup_trade t WHERE t.wallet = w AND t.at < day)"
            " OR (SELECT b.at FROM cup_bet b WHERE b.wallet = w ORDER BY b.round_no, b.at LIMIT 1) < day LIMIT %s",
            (asked, [day_of(first[wallet]) for wallet in asked], needed),
        )
        these = {wallet for (wallet,) in known}
        veterans |= these
        if len(these) < needed:  # so all of them were looked up
            fresh.update(asked)
    return veterans
