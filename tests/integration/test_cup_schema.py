"""Generated requests against the description of the tournament: no server error, no undocumented answer; and what the
description itself promises."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from core.contracts.statuses import MarketKind
from core.cup import settling
from core.db.engine import connect
from tests.support.cup_rig import BASE, Signer, cup_door, now
from tests.support.generated_requests import generated_requests


@pytest.mark.timeout(600)
@pytest.mark.thorough
async def test_every_answer_is_documented(fresh_database_url: str) -> None:
    async with cup_door(fresh_database_url, VPM_TRUST_PROXY="1") as door:
        rich, poor, house = await door.claimed(), Signer(), await door.claimed()
        await door.run("INSERT INTO cup_house_wallet (wallet, fleet) VALUES (%s, 'makers')", house.address)
        slug, ladder, closed = await door.market(), await door.market(MarketKind.RANGE, 4), await door.market()
        assert (await door.post("/trade", rich.trade(closed, "yes", 700))).status == 200
        async with await connect(door.database_url) as connection:
            await settling.settle(connection, closed, 0, now)
        first = await door.open_round()
        assert (await door.post("/roulette/bet", rich.bet(first.round_no, "num:0:no", 1000))).status == 200
        await door.finish_round(first.round_no)
        live = (await door.open_round(timedelta(minutes=60))).round_no  # for as long as the requests last

        trades = [
            rich.trade(slug, "yes", 150),
            rich.trade(ladder, "b2", 1000),
            {"slug": slug, "side": "no", "sizePaper": 2.5, "simulate": True},
            rich.trade(closed, "yes", 100),
            rich.trade(slug, "up", 100),
            rich.trade(slug, "yes", 2_000_000),
            poor.trade(slug, "yes", 100),
            rich.trade("nowhere", "yes", 100),
            {**rich.trade(slug, "yes", 100), "signature": "0x" + "11" * 65},
            rich.trade(slug, "yes", 100, at=now() - timedelta(hours=1)),
        ]
        bets = [
            rich.bet(live, "colour:red", 1000),
            rich.bet(live, "num:7:yes", 1050),
            {"betKey": "half:low", "stakePaper": 10, "simulate": True},
            rich.bet(live, "colour:red", 2000),
            rich.bet(first.round_no, "half:low", 1000),
            poor.bet(live, "half:low", 1000),
            {**rich.bet(live, "half:high", 1000), "betKey": "half:zero"},
        ]
        seen = await asyncio.to_thread(
            generated_requests,
            f"{door.url}/openapi/cup.json",
            known={
                "slug": [slug, ladder, closed, "nowhere"],
                "side": ["yes", "no", "b0", "b3"],
                "address": [rich.address, poor.address],
                "walletAddress": [rich.address, poor.address, house.address],
                "wallet": [rich.address, poor.address],
                "week": ["2026-W47", "2026-W99"],
                "sizePaper": [1, 2.55, 20_000],
                "stakePaper": [10, 500, 9.99],
                "betKey": ["colour:red", "num:36:no", "half:zero"],
                "roundNo": [live, first.round_no, 999],
                f"POST {BASE}/wallet": [{"walletAddress": rich.address}, {"walletAddress": poor.address.upper()[1:]}],
                f"POST {BASE}/trade": trades,
                f"POST {BASE}/roulette/bet": bets,
                f"POST {BASE}/agent/enroll": [
                    rich.enrolment(note="mine"),
                    house.enrolment(),
                    poor.enrolment(now() - timedelta(hours=1)),
                ],
            },
            examples=15,
        )
        seen.reached(
            {
                f"GET {BASE}/markets/{{slug}}/quote": {200, 400, 404, 422},
                f"POST {BASE}/trade": {200, 400, 401, 402, 404, 409, 415, 422},
                f"POST {BASE}/roulette/bet": {200, 400, 401, 409, 415, 422},
                f"POST {BASE}/agent/enroll": {200, 400, 401, 403},
                f"GET {BASE}/wallet/{{address}}": {200, 400},
                f"GET {BASE}/leaderboard": {200, 400},
            }
        )
