"""The tournament's REST surface through its door, on a real database."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from core.contracts.statuses import MarketKind
from core.cup import settling
from core.db.engine import connect
from tests.support.cup_rig import BASE, UNACCOUNTED, Cup, Signer, cup_door, iso, now

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def settle(cup: Cup, slug: str, winner: int | None) -> None:
    async with await connect(cup.database_url) as connection:
        assert await settling.settle(connection, slug, winner, now) is not None


async def test_claim_mints_once(cup: Cup) -> None:
    signer = Signer()
    before = await cup.get(f"/wallet/{signer.address}")
    assert before.body["balancePaper"] == 0
    assert before.body["positions"] == []
    first = await cup.post("/wallet", {"walletAddress": signer.account.address})
    assert first.status == 200
    assert first.body["walletAddress"] == signer.address
    assert (first.body["balancePaper"], first.body["minted"]) == (10_000, True)
    again = await cup.post("/wallet", {"walletAddress": signer.address})
    assert (again.body["balancePaper"], again.body["minted"]) == (10_000, False)
    answers = await asyncio.gather(*(cup.post("/wallet", {"walletAddress": "0x" + "ab" * 20}) for _ in range(20)))
    assert sum(answer.body["minted"] for answer in answers) == 1
    assert {answer.body["balancePaper"] for answer in answers} == {10_000}


async def test_meta_stands_in_answers_and_errors(cup: Cup) -> None:
    asked_at = now().replace(microsecond=0)
    for answer in (await cup.get("/markets"), await cup.get("/markets/none/quote", side="yes", sizePaper=1)):
        meta = answer.body["meta"]
        assert asked_at <= datetime.fromisoformat(meta["generatedAt"]) <= now()  # ISO-8601 with an offset
        assert meta["version"] == "service-cup-api-v1"
        assert meta["currency"] == "pUSDC"
        assert meta["paper"] is True
        assert meta["docsUrl"].endswith("/api/cup/v1/getting-started")
    assert answer.status == 404
    assert answer.body["error"] == "market_not_found"
    assert answer.body["message"]


async def test_markets_are_listed(cup: Cup) -> None:
    ladder = await cup.market(MarketKind.RANGE, 3, closes=timedelta(seconds=100))
    rounds = await cup.market(MarketKind.DIRECTION, closes=timedelta(seconds=101))
    over = await cup.market(closes=timedelta(seconds=-1))
    later = await cup.market(opened=timedelta(minutes=5))
    for _ in range(26):
        await cup.market()
    listed = await cup.get("/markets")
    assert listed.body["count"] == len(listed.body["markets"]) == 25
    assert (await cup.get("/markets", limit=3)).body["count"] == 3
    everything = await cup.get("/markets", limit=100)
    found = {market["slug"]: market for market in everything.body["markets"]}
    assert over not in found
    assert later not in found
    assert found[ladder]["binary"] is False
    assert [each["key"] for each in found[ladder]["outcomes"]] == ["b0", "b1", "b2"]
    assert [each["label"] for each in found[ladder]["outcomes"]] == [
        "Under $100M",
        "$100M to under $200M",
        "$200M or more",
    ]
    assert [each["impliedPct"] for each in found[ladder]["outcomes"]] == [33.34, 33.33, 33.33]  # 100 together
    assert (found[ladder]["yesCents"], found[ladder]["noCents"]) == (33.34, 66.66)
    assert found[rounds]["direction"] is True
    assert [each["key"] for each in found[rounds]["outcomes"]] == ["up", "down"]
    assert (found[rounds]["yesCents"], found[rounds]["noCents"]) == (50, 50)
    for each in (found[ladder], found[rounds]):
        closes, ends = (datetime.fromisoformat(each[name]) for name in ("deadlineAt", "endsAt"))
        assert timedelta(minutes=1) < ends - closes
        assert ends <= datetime.fromisoformat(each["settlesAfter"])
    assert found[ladder]["startAt"] is None
    assert found[rounds]["deadlineAt"] < found[rounds]["startAt"] < found[rounds]["endsAt"]


async def test_a_limit_of_any_number_is_clamped(cup: Cup) -> None:
    for _ in range(101):
        await cup.market(closes=timedelta(hours=3))  # after those whose tests look for them among the first
    await cup.run(
        "INSERT INTO cup_score SELECT '2020-W02', '0x' || lpad(i::text, 40, '0'), -5, now() "
        "FROM generate_series(1, 201) i"
    )

    async def counts(limit: str) -> tuple[int, int]:
        listed = await cup.get("/markets", limit=limit)
        board = await cup.get("/leaderboard", week="2020-W02", limit=limit)
        assert (listed.status, board.status) == (200, 200), (limit, listed, board)
        return listed.body["count"], len(board.body["entries"])

    for limit in ("201", "500.0", "+500", " 500", "5_00", "0000000500", "9" * 4000, "+" + "9" * 20, "1000000000"):
        assert await counts(limit) == (100, 200), limit
    for limit in ("100", "0000000100"):
        assert await counts(limit) == (100, 100), limit
    for wrong in ("0", "-1", "x", "", "1.5", "1e3", "-" + "9" * 20):
        for path in ("/markets", "/leaderboard"):
            assert (await cup.get(path, limit=wrong)).status == 400, (path, wrong)


async def test_quote(cup: Cup) -> None:
    slug = await cup.market()
    quote = await cup.get(f"/markets/{slug}/quote", side="yes", sizePaper="25.50")
    assert quote.status == 200
    assert quote.body["sizePaper"] == 25.5
    assert 25.5 < quote.body["shares"] < 51
    assert quote.body["projectedPayoutPaper"] == 25.5  # alone in the pool
    assert quote.body["projectedPayoutPerSharePaper"] == pytest.approx(25.5 / quote.body["shares"], abs=1e-6)
    assert [each["code"] for each in quote.body["warnings"]] == ["first_on_its_side"]
    assert quote.body["poolPaper"] == 0
    wrong = await cup.get(f"/markets/{slug}/quote", side="maybe", sizePaper=1)
    assert (wrong.status, wrong.body["error"], wrong.body["validSides"]) == (422, "invalid_side", ["yes", "no"])
    assert (await cup.get("/markets/nope/quote", side="yes", sizePaper=1)).body["error"] == "market_not_found"
    for size in ("0", "-1", "1.005", "x", "1e3", "99999999999999"):
        assert (await cup.get(f"/markets/{slug}/quote", side="yes", sizePaper=size)).status == 400, size
    assert await cup.value("SELECT trades FROM cup_market WHERE slug = %s", slug) == 0


async def test_a_signed_trade_and_its_replay(cup: Cup) -> None:
    slug = await cup.market()
    signer = await cup.claimed()
    dry = await cup.post(
        "/trade", {"walletAddress": signer.address, "slug": slug, "side": "yes", "sizePaper": 25, "simulate": True}
    )
    assert (dry.body["receipt"]["simulated"], dry.body["receipt"]["tradeId"]) == (True, None)
    assert await cup.balance(signer) == 10_000
    body = signer.trade(slug, "yes", 2505)
    placed = await cup.post("/trade", body)
    assert placed.status == 200, placed.body
    receipt = placed.body["receipt"]
    assert receipt["simulated"] is False
    assert receipt["tradeId"] == body["tradeId"]
    assert (receipt["sizePaper"], receipt["balancePaper"], receipt["poolPaper"]) == (25.05, 9974.95, 25.05)
    assert receipt["replay"] is False
    again = await cup.post("/trade", body)
    assert again.body["receipt"] == {**receipt, "replay": True}
    other = signer.trade(slug, "no", 2505, body["tradeId"])
    assert ((await cup.post("/trade", other)).status, await cup.balance(signer)) == (409, 9974.95)
    stranger = await cup.claimed()
    stolen = await cup.post("/trade", stranger.trade(slug, "yes", 2505, body["tradeId"]))
    assert (stolen.status, stolen.body["error"]) == (409, "trade_conflict")
    summary = (await cup.get(f"/wallet/{signer.address}")).body
    assert summary["openCount"] == 1
    assert summary["positions"][0]["costPaper"] == 25.05
    (market,) = [each for each in (await cup.get("/markets", limit=100)).body["markets"] if each["slug"] == slug]
    quote = (await cup.get(f"/markets/{slug}/quote", side="yes", sizePaper=1)).body
    for shown in (quote, dry.body["receipt"], receipt, summary["positions"][0]):
        times = ("deadlineAt", "startAt", "endsAt", "settlesAfter")
        assert {name: shown[name] for name in times} == {name: market[name] for name in times}


async def test_refused_trades(cup: Cup) -> None:
    slug, closed = await cup.market(), await cup.market(closes=timedelta(seconds=-1))
    signer, stranger = await cup.claimed(), Signer()

    async def refused(body: object, status: int, code: str) -> dict[str, object]:
        answer = await cup.post("/trade", body)
        assert (answer.status, answer.body.get("error")) == (status, code), answer.body
        assert answer.headers["Cache-Control"] == "no-store"
        return answer.body

    await refused(signer.trade("nope", "yes", 100), 404, "market_not_found")
    await refused(signer.trade(closed, "yes", 100), 409, "market_closed")
    assert (await refused(signer.trade(slug, "up", 100), 422, "invalid_side"))["validSides"] == ["yes", "no"]
    for missing in ("tradeId", "issuedAt", "signature"):
        body = signer.trade(slug, "yes", 100)
        del body[missing]
        await refused(body, 422, "signature_required")
    good = signer.trade(slug, "yes", 100)
    for change in (
        {"walletAddress": stranger.address},
        {"sizePaper": 2},
        {"side": "no"},
        {"tradeId": "another"},
        {"signature": "0x" + "00" * 65},
        {"signature": "0x12"},
        {"signature": "no hex"},
    ):
        await refused({**good, **change}, 401, "invalid_signature")
    for minutes in (-6, 6):
        late = signer.trade(slug, "yes", 100, at=now() + timedelta(minutes=minutes))
        assert (await refused(late, 401, "invalid_signature"))["reason"] == "issued_at_out_of_window"
    short = await refused(signer.trade(slug, "yes", 10_000_01), 402, "insufficient_funds")
    assert (short["balance"], short["needed"]) == (10_000, 10_000.01)
    unclaimed = await refused(stranger.trade(slug, "yes", 100), 402, "insufficient_funds")
    assert unclaimed["balance"] == 0
    for change in ({"sizePaper": 0}, {"sizePaper": "1"}, {"sizePaper": 1.001}, {"walletAddress": "0x12"}, {"slug": 7}):
        await refused({**good, **change}, 400, "invalid_request")
    assert await cup.balance(signer) == 10_000


async def test_the_refusal_of_an_unsigned_trade_says_what_to_sign(cup: Cup) -> None:
    slug, signer = await cup.market(), await cup.claimed()
    for missing in (("tradeId",), ("issuedAt",), ("signature",), ("tradeId", "issuedAt", "signature")):
        wanted = signer.trade(slug, "yes", 25_50)
        body = {name: value for name, value in wanted.items() if name not in missing}
        refused = await cup.post("/trade", body)
        assert (refused.status, refused.body["error"]) == (422, "signature_required"), refused.body
        given = {name: refused.body[name] for name in ("tradeId", "issuedAt")}
        assert given | body == body | given  # what was given stays
        signature = signer.sign(refused.body["expectedMessage"])
        placed = await cup.post("/trade", {**body, **given, "signature": signature})
        assert placed.status == 200, placed.body
        assert placed.body["receipt"]["tradeId"] == given["tradeId"]
    assert await cup.balance(signer) == 9_898


@pytest.mark.parametrize("sign", [-1, 1], ids=["before", "after"])
async def test_what_is_signed_counts_for_five_minutes_either_way(cup: Cup, sign: int) -> None:
    slug, signer, live = await cup.market(), await cup.claimed(), await cup.open_round()
    for seconds, status in ((280, 200), (320, 401)):  # 20 more than a busy machine takes to answer
        for path, signed in (
            ("/trade", lambda at: signer.trade(slug, "yes", 100, at=at)),
            ("/roulette/bet", lambda at: signer.bet(live.round_no, f"num:{at.second % 37}:yes", 1000, at)),
            ("/agent/enroll", signer.enrolment),
        ):
            answer = await cup.post(path, signed(now() + sign * timedelta(seconds=seconds)))
            assert answer.status == status, (path, seconds, answer)
            assert answer.body.get("reason") == (None if status == 200 else "issued_at_out_of_window")
    await cup.finish_round(live.round_no)


async def test_what_is_too_long_or_too_much_has_the_code_of_what_it_is(cup: Cup) -> None:
    """A contract wallet's signature is none of ours, a name of a thousand letters names nothing, and no stake of a
    million is within bounds: a client that handles these codes must not meet another."""
    slug, signer, live = await cup.market(), await cup.claimed(), await cup.open_round()
    good, bet, long = signer.trade(slug, "yes", 100), signer.bet(live.round_no, "half:low", 1000), "a" * 1_000
    contract = "0x" + "ab" * 4_000
    much = signer.trade(slug, "yes", 10**13 + 100)
    names = ({"side": long}, {"side": ""}, {"slug": long}, {"slug": ""})
    refusals = [
        await cup.post("/trade", {**good, **change, "simulate": dry}) for dry in (True, False) for change in names
    ]
    assert [(each.status, each.body["error"]) for each in refusals] == [
        *[(422, "invalid_side")] * 2,
        *[(404, "market_not_found")] * 2,
    ] * 2
    assert refusals[0].body["validSides"] == refusals[5].body["validSides"] == ["yes", "no"]
    for side in (long, ""):
        quoted = await cup.get(f"/markets/{slug}/quote", side=side, sizePaper=1)
        assert (quoted.status, quoted.body.get("validSides")) == (422, ["yes", "no"]), quoted
    assert (await cup.get(f"/markets/{long}/quote", side="yes", sizePaper=1)).body["error"] == "market_not_found"
    for path, signed in (("/trade", good), ("/roulette/bet", bet), ("/agent/enroll", signer.enrolment())):
        refused = await cup.post(path, {**signed, "signature": contract})
        assert (refused.status, refused.body["error"]) == (401, "invalid_signature"), (path, refused)
    short = await cup.post("/trade", much)
    assert (short.status, short.body["error"]) == (402, "insufficient_funds"), short
    assert (short.body["balance"], short.body["needed"]) == (10_000, 10**11 + 1)
    forged = await cup.post("/trade", {**much, "sizePaper": 10**60})
    assert forged.body["error"] == "invalid_signature", forged
    assert (await cup.post("/trade", {**much, "simulate": True})).status == 400  # more than any wallet has: not priced
    for dry in (True, False):
        for stake in (0, -5, 0.01, 501, 10**12, 10**60):
            bounded = await cup.post("/roulette/bet", {**bet, "stakePaper": stake, "simulate": dry})
            assert (bounded.status, bounded.body["error"]) == (422, "stake_out_of_bounds"), (stake, bounded)
            assert bounded.body["bounds"] == {"minBet": 10, "maxBet": 500, "maxRoundTotal": 2000}
        for key in (long, ""):
            unknown = await cup.post("/roulette/bet", {**bet, "betKey": key, "simulate": dry})
            assert (unknown.status, unknown.body["error"]) == (422, "invalid_bet_key"), unknown
            assert "colour:red" in unknown.body["validKeys"]
    for stake in (10.001, "10", True, None):
        assert (await cup.post("/roulette/bet", {**bet, "stakePaper": stake})).status == 400, stake
    await cup.finish_round(live.round_no)


@pytest.mark.parametrize(
    "ending",
    [
        "UPDATE agent_market SET status = 2, winner = 0, closed_tx = listed_tx WHERE slug = %s",
        "UPDATE agent_market SET status = 3, void_reason = 4, closed_tx = listed_tx WHERE slug = %s",
        "DELETE FROM agent_market WHERE slug = %s",
    ],
    ids=["resolved", "void", "taken back"],
)
async def test_what_has_ended_on_chain_takes_no_trade_before_it_is_settled_here(cup: Cup, ending: str) -> None:
    slug, signer = await cup.market(closes=timedelta(seconds=90)), await cup.claimed()
    placed = signer.trade(slug, "yes", 500)
    assert (await cup.post("/trade", placed)).status == 200
    await cup.run(ending, slug)
    dry = {"walletAddress": signer.address, "slug": slug, "side": "yes", "sizePaper": 5, "simulate": True}
    for answer in (
        await cup.post("/trade", signer.trade(slug, "yes", 500)),
        await cup.post("/trade", dry),
        await cup.get(f"/markets/{slug}/quote", side="yes", sizePaper=5),
    ):
        assert (answer.status, answer.body["error"]) == (409, "market_closed")
    listed = await cup.get("/markets", limit=100)
    assert slug not in [market["slug"] for market in listed.body["markets"]]
    assert await cup.balance(signer) == 9_995
    again = await cup.post("/trade", placed)  # what was placed in time keeps its receipt
    assert (again.status, again.body["receipt"]["replay"]) == (200, True)


async def test_trades_end_with_the_stakes_of_the_listed_market(cup: Cup) -> None:
    slug, signer = await cup.market(closes=timedelta(seconds=3)), await cup.claimed()
    soon = await cup.get(f"/markets/{slug}/quote", side="yes", sizePaper=5)
    assert [each["code"] for each in soon.body["warnings"]] == ["first_on_its_side", "closes_soon"]
    assert (await cup.post("/trade", signer.trade(slug, "yes", 500))).status == 200
    closes_at = await cup.value("SELECT closes_at FROM cup_market WHERE slug = %s", slug)
    await asyncio.sleep((closes_at - now()).total_seconds() + 0.01)
    dry = {"slug": slug, "side": "yes", "sizePaper": 5, "simulate": True}
    for answer in (
        await cup.post("/trade", signer.trade(slug, "yes", 500)),
        await cup.post("/trade", dry),
        await cup.get(f"/markets/{slug}/quote", side="yes", sizePaper=5),
    ):
        assert (answer.status, answer.body["error"]) == (409, "market_closed")
    assert await cup.value("SELECT status FROM agent_market WHERE slug = %s", slug) == 1
    assert await cup.value("SELECT ends_at > now() FROM cup_market WHERE slug = %s", slug)


async def test_a_simulation_warns_of_what_would_be_refused(cup: Cup) -> None:
    slug, signer = await cup.market(), await cup.claimed()
    live = await cup.open_round()
    trade = {"walletAddress": signer.address, "slug": slug, "side": "yes", "sizePaper": 10_000}
    assert await warned(cup, "/trade", trade) == ["first_on_its_side"]
    assert await warned(cup, "/trade", {**trade, "sizePaper": 10_000.01}) == ["first_on_its_side", "insufficient_funds"]
    assert await warned(cup, "/trade", {**trade, "walletAddress": Signer().address, "sizePaper": 1}) == [
        "first_on_its_side",
        "insufficient_funds",
    ]
    bet = {"walletAddress": signer.address, "betKey": "colour:red", "stakePaper": 500}
    assert await warned(cup, "/roulette/bet", bet) == []
    assert await warned(cup, "/roulette/bet", {**bet, "walletAddress": Signer().address}) == ["insufficient_funds"]
    for key in ("colour:red", "colour:black", "dozen:1", "dozen:2"):
        assert (await cup.post("/roulette/bet", signer.bet(live.round_no, key, 500_00))).status == 200
    assert await warned(cup, "/roulette/bet", {**bet, "betKey": "dozen:3"}) == ["stake_out_of_bounds"]
    assert await warned(cup, "/roulette/bet", {**bet, "stakePaper": 499}) == ["bet_conflict"]
    assert await warned(cup, "/roulette/bet", bet) == []  # it would be answered by its receipt
    await cup.finish_round(live.round_no)


async def warned(cup: Cup, path: str, body: dict[str, Any]) -> list[str]:
    answer = await cup.post(path, {**body, "simulate": True})
    assert answer.status == 200, answer.body
    return [each["code"] for each in answer.body["receipt"]["warnings"]]


async def test_a_right_trade_never_gets_less_than_it_cost(cup: Cup) -> None:
    slug = await cup.market()
    early, late, other = [await cup.claimed() for _ in range(3)]
    for signer, side, cents in ((early, "yes", 300_00), (late, "yes", 3_000_00)):
        quoted = (await cup.get(f"/markets/{slug}/quote", side=side, sizePaper=cents / 100)).body
        assert quoted["projectedPayoutPaper"] == cents / 100  # there is no other stake
        assert (await cup.post("/trade", signer.trade(slug, side, cents))).status == 200
    quoted = (await cup.get(f"/markets/{slug}/quote", side="no", sizePaper=10)).body
    assert quoted["projectedPayoutPaper"] == 3_310
    assert quoted["projectedPayoutPerSharePaper"] == pytest.approx(3_310 / quoted["shares"], abs=1e-6)
    assert [each["code"] for each in quoted["warnings"]] == ["first_on_its_side"]
    assert (await cup.post("/trade", other.trade(slug, "no", 10_00))).status == 200
    projected = [
        (await cup.get(f"/wallet/{signer.address}")).body["positions"][0]["projectedPayoutPaper"]
        for signer in (early, late)
    ]
    await settle(cup, slug, 0)
    balances = [await cup.balance(signer) for signer in (early, late, other)]
    assert balances[0] > 10_000 < balances[1]
    assert balances[2] == 9_990
    assert projected == [pytest.approx(balances[0] - 9_700), pytest.approx(balances[1] - 7_000)]
    assert sum(balances) == pytest.approx(30_000, abs=0.02)  # what no division could share out is the mint's


@pytest.mark.parametrize("odd", ["\0", "slug\0", "a b", "\ud800", "é", "../x"])
async def test_text_that_the_database_cannot_hold_is_refused_with_words(cup: Cup, odd: str) -> None:
    signer = await cup.claimed()
    dry = {"slug": odd, "side": "yes", "sizePaper": 1, "simulate": True}
    answers = [await cup.post("/trade", dry)]
    if odd.isprintable():
        answers.append(await cup.post("/trade", signer.trade(odd, "yes", 100)))
    if odd != "\ud800":  # has no form in a path
        answers.append(await cup.get(f"/markets/{quote(odd, safe='')}/quote", side="yes", sizePaper=1))
    for answer in answers:
        assert (answer.status, answer.body["error"]) in ((404, "market_not_found"), (400, "invalid_request")), answer
    noted = await cup.post("/agent/enroll", signer.enrolment(note=f"mine {odd}"))
    assert noted.status == (200 if odd.isprintable() else 400), noted


async def test_thirty_trades_in_ten_seconds(cup: Cup) -> None:
    slug, signer, other = await cup.market(), await cup.claimed(), await cup.claimed()
    answers = await asyncio.gather(*(cup.post("/trade", signer.trade(slug, "yes", 100)) for _ in range(32)))
    assert sorted(answer.status for answer in answers) == [200] * 30 + [429] * 2
    refused = next(answer for answer in answers if answer.status == 429)
    assert refused.body["error"] == "rate_limited"
    assert int(refused.headers["Retry-After"]) >= 1
    assert (await cup.post("/trade", other.trade(slug, "yes", 100))).status == 200


async def test_replays_of_what_a_wallet_signed_do_not_use_up_its_rate(cup: Cup) -> None:
    slug, signer = await cup.market(), await cup.claimed()
    live = await cup.open_round()
    placed, bet = signer.trade(slug, "yes", 100), signer.bet(live.round_no, "colour:red", 1000)
    assert (await cup.post("/trade", placed)).status == 200
    assert (await cup.post("/roulette/bet", bet)).status == 200
    old = signer.trade(slug, "yes", 100, at=now() - timedelta(minutes=6))
    old_bet = signer.bet(live.round_no, "colour:black", 1000, at=now() - timedelta(minutes=6))
    for path, signed, status in (
        ("/trade", placed, 200),
        ("/trade", old, 401),
        ("/roulette/bet", bet, 200),
        ("/roulette/bet", old_bet, 401),
    ):
        answers = await asyncio.gather(*(cup.post(path, signed) for _ in range(40)))
        assert {answer.status for answer in answers} == {status}
    assert (await cup.post("/trade", signer.trade(slug, "yes", 100))).status == 200
    assert (await cup.post("/roulette/bet", signer.bet(live.round_no, "colour:green", 1000))).status == 200
    await cup.finish_round(live.round_no)


async def test_a_halt_and_enrolment(cup: Cup) -> None:
    slug, signer, house = await cup.market(), await cup.claimed(), await cup.claimed()
    live, holder = await cup.open_round(), await cup.claimed()
    assert (await cup.post("/trade", holder.trade(slug, "no", 700))).status == 200
    held = {**(await cup.get(f"/wallet/{holder.address}")).body, "meta": 0}
    assert (held["balancePaper"], held["openCount"]) == (9_993, 1)
    await cup.run("INSERT INTO cup_house_wallet (wallet, fleet) VALUES (%s, 'makers')", house.address)
    halt = (
        "INSERT INTO operator_switch (name, is_on, changed_by) VALUES ('cup_halted', %s, 'test') "
        "ON CONFLICT (name) DO UPDATE SET is_on = excluded.is_on"
    )
    await cup.run(halt, True)
    try:
        body, bet = signer.trade(slug, "yes", 100), signer.bet(live.round_no, "colour:red", 1000)
        for path, wanted in (("/trade", body), ("/roulette/bet", bet)):
            answer = await cup.post(path, wanted)
            assert (answer.status, answer.body["error"]) == (503, "cup_agent_trades_halted")
        assert (await cup.post("/trade", holder.trade(slug, "yes", 100))).status == 503
        assert await cup.balance(signer) == 10_000
        assert {**(await cup.get(f"/wallet/{holder.address}")).body, "meta": 0} == held
        assert slug in [each["slug"] for each in (await cup.get("/markets", limit=100)).body["markets"]]
        assert (await cup.get(f"/markets/{slug}/quote", side="yes", sizePaper=1)).body["slug"] == slug
        assert (await cup.get("/leaderboard", wallet=holder.address)).body["you"]["rank"] is None
        assert (await cup.get("/roulette", wallet=holder.address)).body["roundNo"] == live.round_no
        assert (await cup.get("/getting-started")).status == 200
        for path, wanted in (("/trade", body), ("/roulette/bet", bet)):
            assert (await warned(cup, path, wanted))[-1] == "cup_agent_trades_halted"
        stranger = Signer()
        forged = {**stranger.enrolment(), "walletAddress": signer.address}
        assert (await cup.post("/agent/enroll", forged)).status == 401
        stale = signer.enrolment(now() - timedelta(minutes=6))
        assert (await cup.post("/agent/enroll", stale)).body["reason"] == "issued_at_out_of_window"
        assert (await cup.post("/agent/enroll", signer.enrolment(note="x" * 281))).status == 400
        enrolled = await cup.post("/agent/enroll", signer.enrolment(note="x" * 280))
        assert (enrolled.body["enrolled"], enrolled.body["created"], enrolled.body["tradingHalted"]) == (True,) * 3
        assert (await cup.post("/agent/enroll", signer.enrolment())).body["created"] is False
        refused = await cup.post("/agent/enroll", house.enrolment())
        assert (refused.status, refused.body["error"]) == (403, "house_fleet_wallet")
        assert (await cup.post("/trade", body)).status == 200
        assert (await cup.post("/roulette/bet", bet)).status == 200
        assert (await cup.post("/trade", house.trade(slug, "yes", 100))).status == 503
    finally:
        await cup.run(halt, False)
        await cup.finish_round(live.round_no)


async def test_a_market_is_won_and_the_board_shows_it(cup: Cup) -> None:
    slug, void, empty = await cup.market(), await cup.market(), await cup.market()
    winner, loser, idle = await cup.claimed(), await cup.claimed(), Signer()
    await cup.post("/trade", winner.trade(slug, "yes", 100_00))
    await cup.post("/trade", loser.trade(slug, "no", 300_00))
    await cup.post("/trade", loser.trade(void, "no", 50_00))
    await cup.post("/trade", loser.trade(empty, "no", 50_00))
    opened = (await cup.get(f"/wallet/{winner.address}")).body["positions"][0]
    assert (opened["status"], opened["realizedPnlPaper"]) == ("open", 0)
    await settle(cup, slug, 0)
    await settle(cup, void, None)
    await settle(cup, empty, 0)
    won = (await cup.get(f"/wallet/{winner.address}")).body
    assert (won["balancePaper"], won["realizedPnlPaper"], won["openCount"]) == (10_300, 300, 0)
    assert won["positions"][0]["status"] == "won"
    assert won["positions"][0]["realizedPnlPaper"] == 300
    lost = (await cup.get(f"/wallet/{loser.address}")).body
    assert (lost["balancePaper"], lost["realizedPnlPaper"]) == (9_700, -300)
    assert sorted(each["status"] for each in lost["positions"]) == ["lost", "refunded", "refunded"]
    closed = await cup.post("/trade", winner.trade(slug, "yes", 100))
    assert (closed.status, closed.body["error"]) == (409, "market_closed")
    await asyncio.sleep(4.1)  # an older board is waited for
    year, week, _ = now().isocalendar()
    for query in ({}, {"week": f"{year}-W{week:02d}"}):
        board = (await cup.get("/leaderboard", wallet=loser.address, **query)).body
        # Won from one new wallet: as much counts as was staked.
        assert board["entries"][0] == {"wallet": winner.address, "score": 100, "isAgent": False}
        assert board["entries"][-1]["wallet"] == loser.address
        assert board["week"] == query.get("week")
        assert board["you"] == {"rank": board["total"], "total": board["total"]}
    assert (await cup.get("/leaderboard", wallet=idle.address)).body["you"]["rank"] is None
    assert "you" not in (await cup.get("/leaderboard")).body
    assert (await cup.get("/leaderboard", week="2019-W02")).body["entries"] == []
    for wrong in ({"limit": 0}, {"week": "2026-W54"}, {"week": "last"}, {"wallet": "me"}):
        assert (await cup.get("/leaderboard", **wrong)).status == 400, wrong
    at = now()
    await cup.run(
        "INSERT INTO cup_score SELECT '2020-W01', '0x' || lpad(i::text, 40, '0'), -5, %s - i * interval '1 s' "
        "FROM generate_series(1, 1260) i",
        at,
    )
    tied = (await cup.get("/leaderboard", week="2020-W01", wallet="0x" + "1260".rjust(40, "0"))).body
    assert (len(tied["entries"]), tied["total"], tied["you"]["rank"]) == (50, 1260, 1)
    assert len((await cup.get("/leaderboard", week="2020-W01", limit=201)).body["entries"]) == 200
    for wallets in ([1], [261], [1260], range(1, 1262)):  # alone, and with others in one read
        asked = [cup.get("/leaderboard", week="2020-W01", limit=1, wallet=f"0x{wallet:0>40}") for wallet in wallets]
        for wallet, own in zip(wallets, await asyncio.gather(*asked), strict=True):
            assert own.body["you"] == {"rank": 1261 - wallet or None, "total": 1260}


async def test_a_wallet_shows_all_its_positions(cup: Cup) -> None:
    signer, model = await cup.claimed(), await cup.market(closes=timedelta(seconds=30))
    await cup.run(
        "INSERT INTO cup_market (slug, market_key, market_id, kind, question, short_title, token_symbol, outcomes,"
        " weights_cents, net_cents, shares_cents, opens_at, closes_at, ends_at, status, winner, settled_at) "
        "SELECT 'past-' || i, sha256(i::text::bytea), 'past-' || i, kind, question, short_title, token_symbol,"
        " outcomes, weights_cents, '{100,0}', '{150,0}', opens_at, closes_at, ends_at, 'resolved', 0, now() "
        "FROM cup_market, generate_series(1, 1440) i WHERE slug = %s",
        model,
    )
    await cup.run(
        "INSERT INTO cup_position (wallet, slug, outcome, cost_cents, shares_cents, status, paid_cents) "
        "SELECT %s, 'past-' || i, 0, 100, 150, 'won', 100 FROM generate_series(1, 1440) i",
        signer.address,
    )
    assert (await cup.post("/trade", signer.trade(model, "yes", 100))).status == 200
    shown = (await cup.get(f"/wallet/{signer.address}")).body
    assert (len(shown["positions"]), shown["openCount"]) == (1441, 1)
    assert shown["positions"][0]["slug"] == model  # what is open comes first


async def test_trades_and_bets_are_paid_from_one_balance(cup: Cup) -> None:
    slug, signer, live = await cup.market(), await cup.claimed(), await cup.open_round()
    traded = await cup.post("/trade", signer.trade(slug, "yes", 9_800_00))
    assert traded.body["receipt"]["balancePaper"] == 200
    bet = await cup.post("/roulette/bet", signer.bet(live.round_no, "half:low", 150_00))
    assert bet.body["receipt"]["balancePaper"] == 50
    for refused in (
        await cup.post("/trade", signer.trade(slug, "yes", 50_01)),
        await cup.post("/roulette/bet", signer.bet(live.round_no, "half:high", 50_01)),
    ):
        assert (refused.status, refused.body["error"]) == (402, "insufficient_funds"), refused
        assert (refused.body["balance"], refused.body["needed"]) == (50, 50.01)
    assert (await cup.post("/trade", signer.trade(slug, "yes", 50_00))).body["receipt"]["balancePaper"] == 0
    booked = (
        "SELECT jsonb_object_agg(kind, cents) FROM (SELECT kind, sum(amount_cents) AS cents FROM cup_entry"
        " JOIN cup_transaction t ON t.id = transaction_id WHERE account = %s GROUP BY kind) AS k"
    )
    account = f"wallet:{signer.address}"
    assert await cup.value(booked, account) == {"claim": 10_000_00, "trade": -9_850_00, "bet": -150_00}
    await cup.finish_round(live.round_no)  # alone on its half: the stake comes back, into the same balance
    assert await cup.balance(signer) == 150


async def test_the_database_keeps_the_ledger(cup: Cup) -> None:
    signer = await cup.claimed()
    account = f"wallet:{signer.address}"
    attempts = (
        ("INSERT INTO cup_entry SELECT id, %s, 5 FROM cup_transaction LIMIT 1", psycopg.errors.CheckViolation),
        ("UPDATE cup_account SET balance_cents = 5 WHERE account = %s", psycopg.errors.RestrictViolation),
        ("UPDATE cup_entry SET amount_cents = 5 WHERE account = %s", psycopg.errors.RestrictViolation),
        ("DELETE FROM cup_entry WHERE account = %s", psycopg.errors.RestrictViolation),
        ("INSERT INTO cup_account (account, balance_cents) VALUES (%s || 'x', 5)", psycopg.errors.RestrictViolation),
    )
    for query, error in attempts:
        with pytest.raises(error):
            await cup.run(query, account)
    with pytest.raises(psycopg.errors.CheckViolation):  # balanced, but the wallet would owe
        await cup.run(
            "WITH t AS (INSERT INTO cup_transaction (kind, key) VALUES ('trade', 'trade:owing') RETURNING id) "
            "INSERT INTO cup_entry SELECT id, a, c FROM t, (VALUES (%s, -1000001), ('mint', 1000001)) AS v(a, c)",
            account,
        )
    assert await cup.value(UNACCOUNTED) == 0
    differing = (
        "SELECT count(*) FROM cup_account a WHERE balance_cents <> "
        "(SELECT COALESCE(sum(amount_cents), 0) FROM cup_entry e WHERE e.account = a.account) AND account <> 'mint'"
    )
    assert await cup.value(differing) == 0


async def test_headers(cup: Cup) -> None:
    slug, signer, live = await cup.market(), await cup.claimed(), await cup.open_round()
    quoted = f"/markets/{slug}/quote?side=yes&sizePaper=1"
    for path in ("/markets", quoted, "/leaderboard", f"/wallet/{signer.address}", "/getting-started", "/roulette"):
        async with cup.session.get(cup.url + BASE + path, headers={"Origin": "https://example.org"}) as response:
            assert response.status == 200
            assert response.headers["Access-Control-Allow-Origin"] == "*"
            kept = "public, max-age=1" if path == "/roulette" else "public, max-age=2, s-maxage=2"
            assert response.headers["Cache-Control"] == kept
            assert response.content_type == "application/json"
    asked = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    async with cup.session.options(cup.url + BASE + "/trade", headers=asked) as response:
        assert response.status == 204
        assert "Content-Type" in response.headers["Access-Control-Allow-Headers"].split(", ")
    trade, bet = signer.trade(slug, "yes", 100), signer.bet(live.round_no, "half:low", 1000)
    for path, body in (
        ("/wallet", {"walletAddress": signer.address}),
        ("/trade", {**trade, "simulate": True}),
        ("/trade", trade),
        ("/trade", trade),  # a replay
        ("/roulette/bet", {**bet, "simulate": True}),
        ("/roulette/bet", bet),
        ("/agent/enroll", signer.enrolment()),
    ):
        written = await cup.post(path, body)
        assert (written.status, written.headers["Cache-Control"]) == (200, "no-store"), path
        refused = await cup.post(path, {**body, "walletAddress": "0x12"})
        assert (refused.status, refused.headers["Cache-Control"]) == (400, "no-store"), path
    await cup.finish_round(live.round_no)
    missing = await cup.get("/nothing")
    assert (missing.status, missing.body["error"], missing.headers["Cache-Control"]) == (404, "not_found", "no-store")
    wrong = await cup.get("/trade")
    assert (wrong.status, wrong.body["error"]) == (405, "method_not_allowed")
    async with cup.session.post(cup.url + BASE + "/wallet", data=b"{}") as response:
        assert response.status == 415


async def test_dormant_outside_the_window(database_url: str) -> None:
    past, future = iso(now() - timedelta(days=2)), iso(now() + timedelta(days=2))
    windows = (
        {"VPM_CUP_OPENS_AT": None, "VPM_CUP_CLOSES_AT": None},
        {"VPM_CUP_OPENS_AT": future, "VPM_CUP_CLOSES_AT": iso(now() + timedelta(days=3))},
        {"VPM_CUP_OPENS_AT": iso(now() - timedelta(days=3)), "VPM_CUP_CLOSES_AT": past},
    )
    for window in windows:
        async with cup_door(database_url, **window) as door:
            reads = ("/markets", "/markets/x/quote", "/leaderboard", "/getting-started", "/roulette", "/wallet/x")
            answers = [await door.get(path) for path in (*reads, "/export")]
            answers += [await door.post(path, {}) for path in ("/wallet", "/trade", "/roulette/bet", "/agent/enroll")]
            for answer in answers:
                assert (answer.status, answer.body["error"]) == (409, "cup_closed")
                assert answer.headers["Cache-Control"] == "no-store"


async def test_what_waited_past_the_close_of_the_tournament_is_refused(database_url: str) -> None:
    closes_at = now() + timedelta(seconds=4)
    async with cup_door(database_url, VPM_CUP_CLOSES_AT=iso(closes_at)) as door, await connect(database_url) as holder:
        slugs, live = [await door.market(), await door.market()], await door.open_round()
        trader, better = await door.claimed(), await door.claimed()
        async with holder.transaction():
            await holder.execute("SELECT FROM cup_market WHERE slug = ANY(%s) FOR UPDATE", (slugs,))
            await holder.execute("SELECT FROM cup_round WHERE round_no = %s FOR UPDATE", (live.round_no,))
            waiting = [asyncio.create_task(door.post("/trade", trader.trade(slug, "yes", 100))) for slug in slugs]
            bet = better.bet(live.round_no, "half:low", 1000)
            waiting.append(asyncio.create_task(door.post("/roulette/bet", bet)))
            while now() <= closes_at:
                await asyncio.sleep(0.05)
            assert not any(each.done() for each in waiting), "it did not wait"
        for answer in await asyncio.gather(*waiting):
            assert (answer.status, answer.body["error"]) == (409, "cup_closed"), answer
            assert answer.body["closesAt"] == iso(closes_at)
        for signer in (trader, better):
            held = "SELECT balance_cents FROM cup_account WHERE account = %s"
            assert await door.value(held, f"wallet:{signer.address}") == 1_000_000
        await door.finish_round(live.round_no)
