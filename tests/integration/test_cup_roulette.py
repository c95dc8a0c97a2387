"""Roulette through the door, and the keeper's rounds on a real chain."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from api.cup.service import WHEEL_SECONDS
from core.chain import ChainClient, ChainProvider
from core.contracts.statuses import MarketKind
from core.cup import Refusal, betting, board, ledger, rounds, settling, wheel
from core.db.engine import Connection, connect
from core.hexadecimal import bytes_of
from keeper.cup import find_beacon
from tests.conftest import StartAnvil
from tests.support.cup_check import cup_faults, read_cup
from tests.support.cup_rig import BASE, Cup, Signer, now

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_round_from_bet_to_payout(cup: Cup) -> None:
    live = await cup.open_round()
    red, black = await cup.claimed(), await cup.claimed()
    view = (await cup.get("/roulette")).body
    assert (view["roundNo"], view["phase"], view["pocket"], view["seed"]) == (live.round_no, "bet", None, None)
    assert view["commitment"] == "0x" + wheel.commitment_of(live.seed).hex()
    assert live.seed.hex() not in json.dumps(view)
    assert 40 < view["secondsToClose"] <= 45
    assert view["bounds"] == {"minBet": 10, "maxBet": 500, "maxRoundTotal": 2000}
    assert len(view["markets"]) == 42
    placed = await cup.post("/roulette/bet", red.bet(live.round_no, "colour:red", 100_00))
    assert placed.status == 200, placed.body
    assert placed.body["receipt"]["balancePaper"] == 9_900
    again = await cup.post("/roulette/bet", red.bet(live.round_no, "colour:red", 100_00))
    assert again.body["receipt"] == {**placed.body["receipt"], "replay": True}
    other = await cup.post("/roulette/bet", red.bet(live.round_no, "colour:red", 50_00))
    assert (other.status, other.body["error"]) == (409, "bet_conflict")
    dry = {"walletAddress": black.address, "betKey": "colour:black", "stakePaper": 300, "simulate": True}
    await asyncio.sleep(WHEEL_SECONDS)  # for so long others may be shown what was before
    estimate = (await cup.post("/roulette/bet", dry)).body
    receipt = estimate["receipt"]
    assert (receipt["truePct"], receipt["crowdPct"], receipt["crowdPctAfter"]) == (48.65, 0, 75)
    assert (receipt["payIfWinPaper"], receipt["balancePaper"]) == (400, 10_000)
    for bet in (("colour:black", 300_00), ("num:17:yes", 10_00)):
        assert (await cup.post("/roulette/bet", black.bet(live.round_no, *bet))).status == 200
    view = (await cup.get("/roulette", wallet=black.address)).body
    assert (view["bettors"], view["stakedPaper"]) == (2, 410)
    colour = view["markets"][0]
    assert (colour["id"], colour["poolPaper"]) == ("colour", 400)
    assert [(each["poolPaper"], each["crowdPct"]) for each in colour["outcomes"]] == [(100, 25), (300, 75), (0, 0)]
    assert [(bet["betKey"], bet["stakePaper"]) for bet in view["bets"]] == [("colour:black", 300), ("num:17:yes", 10)]
    await cup.close_round(live.round_no)
    spinning = (await cup.get("/roulette")).body
    assert (spinning["phase"], spinning["pocket"], spinning["seed"], spinning["secondsToClose"]) == (
        "spin",
        None,
        None,
        0,
    )
    beacon = next(  # a beacon that makes black win, and 17 not
        hashed
        for hashed in (bytes([i]) * 32 for i in range(256))
        if wheel.pocket_of(live.seed, live.round_no, hashed) in wheel.OUTCOMES["colour:black"].pockets - {17}
    )
    done = await cup.finish_round(live.round_no, beacon)
    view = (await cup.get("/roulette", wallet=black.address)).body
    assert (view["phase"], view["pocket"]) == ("settled", done.pocket)
    assert view["history"][0]["roundNo"] == live.round_no
    seed, hashed = (bytes.fromhex(view["history"][0][name][2:]) for name in ("seed", "beaconHash"))
    assert wheel.pocket_of(seed, live.round_no, hashed) == view["history"][0]["pocket"]
    assert {bet["betKey"]: (bet["status"], bet["payoutPaper"]) for bet in view["bets"]} == {
        "colour:black": ("won", 400),
        "num:17:yes": ("refunded", 10),
    }
    assert (await cup.balance(black), await cup.balance(red)) == (10_100, 9_900)
    async with await connect(cup.database_url) as connection:
        assert await rounds.finish(connection, live.round_no, 1, beacon, now) is None


async def test_winners_split_their_markets_whole_pool_by_stake(cup: Cup) -> None:
    live = await cup.open_round()
    large, small, wrong = [await cup.claimed() for _ in range(3)]
    for signer, key, cents in (
        (large, "colour:red", 100_00),
        (small, "colour:red", 50_00),
        (wrong, "colour:black", 61_00),
        (wrong, "half:low", 30_00),  # another market's pool: it pays no one in this one
    ):
        assert (await cup.post("/roulette/bet", signer.bet(live.round_no, key, cents))).status == 200
    beacon = next(
        hashed
        for hashed in (bytes([i]) * 32 for i in range(256))
        if wheel.pocket_of(live.seed, live.round_no, hashed) in wheel.OUTCOMES["colour:red"].pockets
    )
    await cup.finish_round(live.round_no, beacon)
    # 211 pUSDC for 150 staked on red: 100 of them get 140.666..., 50 of them 70.333..., each rounded down.
    assert (await cup.balance(large), await cup.balance(small)) == (9_900 + 140.66, 9_950 + 70.33)
    assert await cup.balance(wrong) == 9_939  # alone on its half, so that stake comes back


async def test_the_export_alone_shows_how_a_round_fell_and_paid(cup: Cup) -> None:
    live = await cup.open_round()
    for key in ("colour:red", "colour:black"):
        assert (await cup.post("/roulette/bet", (await cup.claimed()).bet(live.round_no, key, 100_00))).status == 200
    done = await cup.finish_round(live.round_no, bytes(32))
    following = await cup.open_round()
    async with cup.session.get(f"{cup.url}{BASE}/export") as response:
        rows = [orjson.loads(line) for line in (await response.read()).splitlines()]
    assert (rows[0]["type"], rows[-1]) == ("export", {"type": "end", "lines": len(rows) - 1})
    round_ = next(each for each in rows if each["type"] == "round" and each["round_no"] == live.round_no)
    bets = [each for each in rows if each["type"] == "bet" and each["round_no"] == live.round_no]
    stakes = [wheel.WheelStake(each["wallet"], each["bet_key"], each["stake_cents"]) for each in bets]
    seed = bytes_of(round_["seed"])
    assert hashlib.sha256(seed).hexdigest() == round_["commitment"][2:]
    assert wheel.bets_hash(live.round_no, stakes) == bytes_of(round_["bets_hash"])
    assert wheel.pocket_of(seed, live.round_no, bytes_of(round_["beacon_hash"])) == round_["pocket"] == done.pocket
    paid = {each.stake.wallet: each.paid_cents for each in wheel.settle(stakes, done.pocket)}
    assert {each["wallet"]: each["paid_cents"] for each in bets} == paid
    assert next(each for each in rows if each.get("round_no") == following.round_no)["seed"] is None


async def test_refused_bets(cup: Cup) -> None:
    await cup.finish_round((await cup.open_round()).round_no)  # so that there is one before
    live = await cup.open_round()
    signer, poor = await cup.claimed(), Signer()
    number = live.round_no

    async def refused(body: dict[str, Any], status: int, code: str) -> dict[str, Any]:
        answer = await cup.post("/roulette/bet", body)
        assert (answer.status, answer.body.get("error")) == (status, code), answer.body
        return answer.body

    for cents in (9_99, 500_01):
        bounded = await refused(signer.bet(number, "half:low", cents), 422, "stake_out_of_bounds")
        assert bounded["bounds"] == {"minBet": 10, "maxBet": 500, "maxRoundTotal": 2000}
    assert "dozen:zero" in (await refused(signer.bet(number, "red", 1000), 422, "invalid_bet_key"))["validKeys"]
    for other in (number - 1, number + 1):
        assert (await refused(signer.bet(other, "half:low", 1000), 409, "round_closed"))["roundNo"] == other
    await refused(poor.bet(number, "half:low", 1000), 402, "insufficient_funds")
    good = signer.bet(number, "half:low", 1000)
    await refused({**good, "walletAddress": poor.address}, 401, "invalid_signature")
    await refused({**good, "betKey": "half:high"}, 401, "invalid_signature")
    await refused({name: value for name, value in good.items() if name != "roundNo"}, 422, "signature_required")
    late = await refused(signer.bet(number, "half:low", 1000, now() - timedelta(minutes=6)), 401, "invalid_signature")
    assert late["reason"] == "issued_at_out_of_window"
    trade = signer.trade("half:low", "half:low", 1000)
    await refused({**good, "signature": trade["signature"]}, 401, "invalid_signature")
    keys = ("dozen:1", "dozen:2", "half:low", "half:high")
    for key in keys:
        assert (await cup.post("/roulette/bet", signer.bet(number, key, 500_00))).status == 200
    await refused(signer.bet(number, "parity:odd", 1000), 422, "stake_out_of_bounds")
    await cup.close_round(number)
    fresh = await cup.claimed()
    await refused(fresh.bet(number, "half:low", 1000), 409, "round_closed")
    await cup.finish_round(number)


async def test_the_refusal_of_an_unsigned_bet_says_what_to_sign(cup: Cup) -> None:
    """Signed, and sent with the other fields of the refusal, it is a bet: on the live round, if it named none."""
    live, signer = await cup.open_round(), await cup.claimed()
    unsigned = (("roundNo",), ("issuedAt",), ("signature",), ("roundNo", "issuedAt", "signature"))
    for number, missing in enumerate(unsigned):
        wanted = signer.bet(live.round_no, f"num:{number}:yes", 25_50)
        body = {name: value for name, value in wanted.items() if name not in missing}
        refused = await cup.post("/roulette/bet", body)
        assert (refused.status, refused.body["error"]) == (422, "signature_required"), refused.body
        given = {name: refused.body[name] for name in ("roundNo", "issuedAt")}
        assert given | body == body | given  # what was given stays
        signature = signer.sign(refused.body["expectedMessage"])
        placed = await cup.post("/roulette/bet", {**body, **given, "signature": signature})
        assert placed.status == 200, placed.body
    assert await cup.balance(signer) == 9_898
    await cup.finish_round(live.round_no)


async def test_everything_follows_from_the_signed_trades_and_the_spins(cup: Cup) -> None:
    slug, void = await cup.market(MarketKind.RANGE, 3), await cup.market()
    signers, alone = [await cup.claimed() for _ in range(4)], await cup.claimed()
    assert (await cup.post("/agent/enroll", signers[0].enrolment())).status == 200
    for position, signer in enumerate(signers):
        assert (await cup.post("/trade", signer.trade(slug, f"b{position % 3}", 1234 + position))).status == 200
        assert (await cup.post("/trade", signer.trade(void, "yes", 777))).status == 200
    for _ in range(3):
        live = await cup.open_round()
        for signer, key in zip(signers, ("colour:red", "colour:black", "num:5:no", "column:1"), strict=True):
            assert (await cup.post("/roulette/bet", signer.bet(live.round_no, key, 33_33))).status == 200
        assert (await cup.post("/roulette/bet", alone.bet(live.round_no, "num:6:no", 1000))).status == 200
        await cup.finish_round(live.round_no, live.seed)
    assert (await cup.get("/leaderboard", wallet=alone.address)).body["you"]["rank"] is None  # it realized nothing
    async with await connect(cup.database_url) as connection:
        await settling.settle(connection, slug, 1, now)
        await settling.settle(connection, void, None, now)
    live = await cup.open_round()
    assert (await cup.post("/roulette/bet", signers[0].bet(live.round_no, "colour:red", 1000))).status == 200
    async with await connect(cup.database_url) as connection:
        assert cup_faults(await read_cup(connection)) == []
    await cup.finish_round(live.round_no)


async def test_the_beacon_is_the_first_block_at_or_after_the_close(anvil: StartAnvil) -> None:
    chain = anvil(chain_id=8453)
    async with ChainProvider((chain.url,), chain_id=8453) as rpc:
        client = ChainClient(rpc)
        start = (await client.head()).timestamp + 1000
        for at in (0, 3, 4, 10, 11, 30):
            await rpc.call("evm_setNextBlockTimestamp", [start + at], Any)
            await rpc.call("evm_mine", [], Any)
        blocks = {number: await client.block(number) for number in range(7)}
        head = (await client.head()).number
        for after in range(start - 2, start + 31):
            expected = next(number for number in range(1, head + 1) if blocks[number].timestamp >= after)
            found = await find_beacon(client, after, 0, head)
            assert found == (expected, blocks[expected].hash), after
        assert await find_beacon(client, start + 31, 0, head) is None
        assert await find_beacon(client, start, 500, head) == (1, blocks[1].hash)  # a chain set up afresh


async def test_a_bet_that_waited_past_the_close_is_refused(cup: Cup) -> None:
    signer = await cup.claimed()
    live = await cup.open_round(timedelta(seconds=2))
    async with await connect(cup.database_url) as holder:
        async with holder.transaction():
            await holder.execute("SELECT 1 FROM cup_round WHERE round_no = %s FOR UPDATE", (live.round_no,))
            waiting = asyncio.create_task(cup.post("/roulette/bet", signer.bet(live.round_no, "half:low", 1000)))
            while now() <= live.closes_at:
                await asyncio.sleep(0.05)
            assert not waiting.done(), "it did not wait"
        answer = await waiting
    assert (answer.status, answer.body.get("error")) == (409, "round_closed"), answer.body
    assert await cup.balance(signer) == 10_000
    await cup.finish_round(live.round_no)


async def test_every_part_of_a_round_is_from_one_moment(cup: Cup, monkeypatch: pytest.MonkeyPatch) -> None:
    signer, live = await cup.claimed(), await cup.open_round()
    read_history = rounds.settled

    async def after_a_bet(connection: Connection, limit: int) -> list[rounds.RouletteRound]:
        placed = await cup.post("/roulette/bet", signer.bet(live.round_no, "half:low", 100_00))
        assert placed.status == 200, placed.body
        return await read_history(connection, limit)

    monkeypatch.setattr(rounds, "settled", after_a_bet)
    view = (await cup.get("/roulette", wallet=signer.address)).body
    assert (view["bettors"], view["stakedPaper"], len(view["bets"])) in ((0, 0, 0), (1, 100, 1))
    monkeypatch.undo()
    view = (await cup.get("/roulette", wallet=signer.address)).body
    assert (view["bettors"], view["stakedPaper"], len(view["bets"])) == (1, 100, 1)
    await cup.close_round(live.round_no)
    await cup.finish_round(live.round_no)


async def test_visitors_share_one_reading_of_the_wheel(cup: Cup, monkeypatch: pytest.MonkeyPatch) -> None:
    live, read, readings = await cup.open_round(), betting.round_totals, []

    async def counted(connection: Connection, round_no: int) -> betting.RoundTotals:
        readings.append(round_no)
        return await read(connection, round_no)

    monkeypatch.setattr(betting, "round_totals", counted)
    signers = [await cup.claimed() for _ in range(8)]
    simulated = {"betKey": "half:low", "stakePaper": 10, "simulate": True}
    for _ in range(2):
        asked = [cup.get("/roulette", wallet=each.address) for each in signers]
        asked += [cup.get("/roulette") for _ in signers]
        asked += [cup.post("/roulette/bet", simulated) for _ in signers]
        assert {each.status for each in await asyncio.gather(*asked)} == {200}
    assert len(readings) <= 4  # of 48; a slow machine takes longer than one will do
    for bettors, signer in enumerate(signers, 1):
        assert (await cup.post("/roulette/bet", signer.bet(live.round_no, "half:low", 1000))).status == 200
        view = (await cup.get("/roulette", wallet=signer.address)).body
        assert (view["bettors"], view["stakedPaper"], len(view["bets"])) == (bettors, 10 * bettors, 1)
    await cup.finish_round(live.round_no)
    view = (await cup.get("/roulette", wallet=signers[0].address)).body
    assert (view["phase"], view["bets"][0]["status"] == "open") == ("settled", False)


async def test_two_keepers_open_one_round_and_settle_it_once(cup: Cup) -> None:
    async def both(work: Callable[[Any], Any]) -> list[Any]:
        async with await connect(cup.database_url) as one, await connect(cup.database_url) as two:
            return list(await asyncio.gather(work(one), work(two)))

    at = now() - timedelta(seconds=51)  # the round before ended earlier, and this one is over too
    opened = await both(lambda connection: rounds.open_next(connection, at, 8453, 7, int(at.timestamp())))
    live = next(each for each in opened if each is not None)
    assert opened.count(None) == 1
    assert (live.closes_at - live.opens_at, live.ends_at - live.closes_at) == (
        timedelta(seconds=45),
        timedelta(seconds=5),
    )
    async with await connect(cup.database_url) as connection:
        assert await rounds.open_next(connection, now(), 8453, 7, 0) is None
    done = await both(lambda connection: rounds.finish(connection, live.round_no, 9, b"\x07" * 32, now))
    assert done.count(None) == 1


async def test_a_round_settled_over_the_end_of_a_week_counts_for_the_week_it_is_paid_in(cup: Cup) -> None:
    """Its keeper began on Sunday and waited for a wallet until Monday."""
    signer, other = await cup.claimed(), await cup.claimed()
    live = await cup.open_round()
    for each, key in ((signer, "half:low"), (other, "half:high")):
        assert (await cup.post("/roulette/bet", each.bet(live.round_no, key, 1000))).status == 200
    monday = datetime(2026, 3, 2, tzinfo=UTC)
    assert (board.week_of(monday - timedelta(seconds=1)), board.week_of(monday)) == ("2026-W09", "2026-W10")
    moments = iter([monday - timedelta(seconds=1), monday])
    await cup.run(
        "UPDATE cup_round SET opens_at = %s, closes_at = %s, ends_at = %s WHERE round_no = %s",
        *(monday - timedelta(seconds=each) for each in (60, 15, 10)),
        live.round_no,
    )
    hashes = (bytes([each]) * 32 for each in range(256))
    beacon = next(each for each in hashes if wheel.pocket_of(live.seed, live.round_no, each))  # zero refunds both
    async with await connect(cup.database_url) as connection:
        done = await rounds.finish(connection, live.round_no, 1, beacon, lambda: next(moments))
    assert done is not None
    assert done.settled_at == monday
    weeks = "SELECT string_agg(DISTINCT period, ' ') FROM cup_score WHERE wallet = %s AND period <> 'all'"
    assert await cup.value(weeks, signer.address) == "2026-W10"


async def test_bets_that_come_too_late_do_not_hold_up_the_draw(cup: Cup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight wallets send bets on a round that is over, one after another without a pause, to an API that is slow: it is
    drawn all the same."""
    lock = ledger.lock_free_wallets

    async def slow(*arguments: Any) -> dict[str, int]:
        await asyncio.sleep(0.2)
        return await lock(*arguments)

    monkeypatch.setattr(ledger, "lock_free_wallets", slow)
    signers, live = [await cup.claimed() for _ in range(8)], await cup.open_round()
    await cup.close_round(live.round_no)
    drawn = asyncio.Event()

    async def late(signer: Signer) -> int:
        refused = 0
        async with await connect(cup.database_url) as connection:
            while not drawn.is_set():
                with pytest.raises(Refusal, match="ended"):
                    await betting.place(connection, bet_of(signer), now)
                refused += 1
        return refused

    def bet_of(signer: Signer) -> betting.RouletteBet:
        return betting.RouletteBet(signer.address, live.round_no, "half:low", 1000, "", b"")

    async with await connect(cup.database_url) as connection:
        crowd = asyncio.gather(*map(late, signers))
        await asyncio.sleep(0.5)
        try:
            async with asyncio.timeout(10):
                assert await rounds.finish(connection, live.round_no, 1, b"\x07" * 32, now) is not None
        finally:
            drawn.set()
            refused = await crowd
    assert all(refused)


async def test_the_bets_of_a_round_are_fixed_before_its_beacon_exists(cup: Cup) -> None:
    """The holder of the seed knows the pocket once there is a beacon; a bet added then is not in the hash."""
    early, late, live = await cup.claimed(), await cup.claimed(), await cup.open_round()
    for signer, key, cents in ((early, "num:7:yes", 10_00), (early, "half:low", 12_50)):
        assert (await cup.post("/roulette/bet", signer.bet(live.round_no, key, cents))).status == 200
    assert (await cup.get("/roulette")).body["betsHash"] is None
    assert live.beacon_after >= live.closes_at.timestamp() + rounds.HASHED_WITHIN_SECONDS
    listed = f"{live.round_no}\n" + "\n".join(
        sorted(f"{early.address}:{key}:{cents}" for key, cents in (("num:7:yes", 1000), ("half:low", 1250)))
    )
    async with await connect(cup.database_url) as connection:
        assert await rounds.close(connection, live.round_no, now) is None, "it takes bets"
        await cup.close_round(live.round_no)
        closed = await rounds.close(connection, live.round_no, now)
        assert closed is not None
        assert closed.bets_hash == hashlib.sha256(listed.encode()).digest()
        assert await rounds.close(connection, live.round_no, now) is None, "once"
        shown = (await cup.get("/roulette")).body
        assert (shown["betsHash"], shown["pocket"]) == ("0x" + closed.bets_hash.hex(), None)
        # An API whose clock is late, as the operator may say of his own.
        bet = betting.RouletteBet(late.address, live.round_no, "num:7:yes", 1000, "", b"")
        with pytest.raises(Refusal, match="ended"):
            await betting.place(connection, bet, lambda: now() - timedelta(seconds=70))
    done = await cup.finish_round(live.round_no)
    assert done.bets_hash == closed.bets_hash
    view = (await cup.get("/roulette")).body
    assert view["history"][0]["betsHash"] == shown["betsHash"]


async def test_a_round_closed_late_publishes_its_bets_with_the_result(cup: Cup) -> None:
    signer, live = await cup.claimed(), await cup.open_round()
    assert (await cup.post("/roulette/bet", signer.bet(live.round_no, "half:low", 10_00))).status == 200
    done = await cup.finish_round(live.round_no)
    assert done.bets_hash == wheel.bets_hash(live.round_no, [wheel.WheelStake(signer.address, "half:low", 1000)])
    assert done.bets_hash != wheel.bets_hash(live.round_no, [])
