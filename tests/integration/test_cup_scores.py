"""Many free wallets do not make one of them the best of the board."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.cup import board, wheel
from core.cup.rounds import RouletteRound
from core.db.engine import Connection, connect, conninfo
from tests.support.cup_check import cup_faults, read_cup
from tests.support.cup_rig import Cup, Signer

pytestmark = pytest.mark.asyncio(loop_scope="module")


def _beacon(live: RouletteRound, key: str) -> bytes:
    return next(
        hashed
        for hashed in (bytes([i]) * 32 for i in range(256))
        if wheel.pocket_of(live.seed, live.round_no, hashed) in wheel.OUTCOMES[key].pockets
    )


async def _lost_to(cup: Cup, winner: Signer, losers: Sequence[Signer]) -> int:
    """A round in which each of the losers loses 500 pUSDC to the winner, who stakes 10; its number."""
    live = await cup.open_round()
    for signer, key, cents in [(winner, "colour:red", 10_00), *((each, "colour:black", 500_00) for each in losers)]:
        assert (await cup.post("/roulette/bet", signer.bet(live.round_no, key, cents))).status == 200
    await cup.finish_round(live.round_no, _beacon(live, "colour:red"))
    return live.round_no


async def _score(cup: Cup, signer: Signer) -> float | None:
    async with await connect(cup.database_url) as connection:
        cursor = await connection.execute(
            "SELECT -debit_cents FROM cup_score WHERE period = 'all' AND wallet = %s", (signer.address,)
        )
        row = await cursor.fetchone()
    return None if row is None else row[0] / 100


async def _faults(cup: Cup) -> list[str]:
    async with await connect(cup.database_url) as connection:
        return cup_faults(await read_cup(connection))


async def test_forty_new_wallets_that_lose_to_one_do_not_put_it_on_top(cup: Cup) -> None:
    winner = await cup.claimed()
    losers = [await cup.claimed() for _ in range(40)]
    await _lost_to(cup, winner, losers)
    assert await cup.balance(winner) == 30_000
    wallet = (await cup.get(f"/wallet/{winner.address}")).body
    assert wallet["realizedPnlPaper"] == 20_000  # the money is its own all the same
    assert await _score(cup, winner) == 10
    assert [await _score(cup, each) for each in losers] == [-500] * 40
    assert await _faults(cup) == []


@pytest.mark.parametrize(("known", "score"), [(2, 10), (3, 2_000)])
async def test_what_three_wallets_of_an_earlier_day_lost_counts_in_full(cup: Cup, known: int, score: float) -> None:
    winner = await cup.claimed()
    losers = [await cup.claimed() for _ in range(4)]
    first = await cup.open_round()
    for each in losers:
        assert (await cup.post("/roulette/bet", each.bet(first.round_no, "colour:red", 10_00))).status == 200
    await cup.finish_round(first.round_no, _beacon(first, "colour:black"))  # no winner: all stakes are returned
    await cup.run(
        "UPDATE cup_bet SET at = at - interval '1 day' WHERE round_no = %s AND wallet = ANY(%s)",
        first.round_no,
        [each.address for each in losers[:known]],
    )
    await _lost_to(cup, winner, losers)
    assert await _score(cup, winner) == score
    assert await _faults(cup) == []


async def test_no_more_wallets_are_looked_up_than_the_rule_needs(cup: Cup) -> None:
    """A round of thousands is settled in one transaction, which holds up the next bets."""
    wallets = [await cup.claimed() for _ in range(8)]
    live = await cup.open_round()
    for each in wallets:
        assert (await cup.post("/roulette/bet", each.bet(live.round_no, "colour:red", 10_00))).status == 200
    await cup.finish_round(live.round_no, _beacon(live, "colour:black"))
    losers = [each.address for each in wallets[1:]]
    first = {each.address: datetime.now(UTC) + timedelta(days=1) for each in wallets}
    lost = dict.fromkeys(losers, (500_00, 0))
    async with await connect(cup.database_url) as connection:
        doubled = {wallets[0].address: (10_00, 20_00), **lost}
        assert await board.find_seasoned(connection, [doubled], first) == set()
        more = {wallets[0].address: (10_00, 20_01), **lost}
        found = await board.find_seasoned(connection, [doubled, more], first)
        assert len(found) == board.SEASONED
        assert found < set(losers)
        assert board.score_changes([more], found) == board.score_changes([more], losers)


class _Counting(Connection):
    """A connection that remembers which wallets it was asked to look up."""

    looked_up: list[str]

    async def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        self.looked_up = [*getattr(self, "looked_up", []), *params[0]]
        return await super().execute(query, params, **options)


async def test_a_wallet_that_lost_in_every_pool_of_a_round_is_looked_up_once(cup: Cup) -> None:
    losers = [(await cup.claimed()).address for _ in range(20)]
    pools = [{f"0x{number:040x}": (10_00, 500_00), **dict.fromkeys(losers, (500_00, 0))} for number in range(42)]
    first = {wallet: datetime.now(UTC) for pool in pools for wallet in pool}
    async with await _Counting.connect(conninfo(cup.database_url)) as connection:
        assert await board.find_seasoned(connection, pools, first) == set()
        assert sorted(connection.looked_up) == sorted(losers)


async def test_enrolled_agents_have_a_board_of_their_own_and_the_rule_is_shown(cup: Cup) -> None:
    agent, person, late = [await cup.claimed() for _ in range(3)]
    assert (await cup.post("/agent/enroll", agent.enrolment(note="plays alone"))).status == 200
    await _lost_to(cup, agent, [person, late])
    shown = (await cup.get("/leaderboard", agents="true", wallet=agent.address, limit=200)).body
    assert [(each["wallet"], each["score"], each["isAgent"]) for each in shown["entries"]] == [
        (agent.address, 10, True)
    ]
    assert (shown["agents"], shown["total"], shown["you"]) == (True, 1, {"rank": 1, "total": 1})
    whole = (await cup.get("/leaderboard", limit=200)).body
    assert {agent.address, person.address} <= {each["wallet"] for each in whole["entries"]}
    assert whole["agents"] is False
    assert "up to its own stake" in whole["rule"]
    assert whole["rule"] == shown["rule"]
    # Who enrols later is on it at once, without a new result.
    assert (await cup.post("/agent/enroll", late.enrolment(note="now, too"))).status == 200
    async with await connect(cup.database_url, autocommit=True) as connection:
        assert (await board.top(connection, board.ALL_TIME, 5, agents=True)).rank(late.address) == 2
