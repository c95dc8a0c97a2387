"""The event channels over HTTP: bets, resolutions and payouts on streams, replay, polling and webhooks."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from api.agent.bodies.events import AgentEvent
from core.db.engine import make_pool
from core.outbox import KEEPER, IntentRequest, enqueue
from scripts._stack import wallets
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet
from tests.support.event_reader import Following, messages
from tests.support.webhook_receiver import active, receiver, registered
from tests.waiting import PATIENCE, until

DEV = wallets.DEV
CAP = 100_000_000 * 10**8


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    chain = base_service.chain
    chain.list("bet-on")
    chain.list("ends", closes_at=chain.now + 3_600)
    chain.list("void", closes_at=chain.now + 10 * 86_400)
    base_service.configure(VPM_ALLOW_PRIVATE_WEBHOOKS="1")
    base_service.start("indexer", "relayer", "api")
    return base_service


async def replayed(buyer: Buyer, wallet: str, count: int, *, seconds: float = PATIENCE) -> list[Any]:
    events: list[Any] = []

    async def are_there() -> bool:
        nonlocal events
        response, body = await buyer.get("/events/replay", wallet=wallet)
        assert response.status == 200, body
        events = list(body["events"])
        return len(events) >= count

    await until(are_there, lambda: f"{count} events, not {[each['type'] for each in events]}", seconds, pause=0.1)
    return events


async def test_a_bet_is_submitted_and_then_placed(buyer: Buyer) -> None:
    who = DEV[1]
    response, paid = await buyer.buy(bet("bet-on", who, ref="mention:7"), who)
    assert response.status == 200, paid
    receipt = paid["receipt"]
    submitted, placed = await replayed(buyer, who.address, 2)
    for each in (submitted, placed):
        assert set(each) == set(AgentEvent.__struct_encode_fields__)
        assert (each["wallet"], each["marketId"], each["tradeId"]) == (
            who.address.lower(),
            buyer.service.chain.ids["bet-on"],
            receipt["tradeId"],
        )
        assert datetime.fromisoformat(each["createdAt"]).tzinfo is not None
        assert each["payload"]["txHash"] == receipt["txHash"]
        assert each["payload"]["sizeUsd"] == 5
    assert (submitted["type"], submitted["seq"], submitted["proofUrl"]) == ("bet.settlement_submitted", 0, None)
    assert (placed["type"], placed["seq"], placed["proofUrl"]) == ("bet.placed", 1, receipt["proofUrl"])
    assert placed["payload"]["shares"] == receipt["position"]["shares"]
    assert placed["payload"]["avgPriceCents"] == receipt["position"]["avgPriceCents"]
    assert placed["payload"]["ref"] == "mention:7"
    # The chain's clock, and within its second the order.
    assert submitted["createdAt"] < placed["createdAt"]
    assert placed["createdAt"][:19] + "Z" == receipt["recordedAt"]


async def test_from_bets_to_payouts_on_every_channel(buyer: Buyer, service: AgentService, database_url: str) -> None:
    """Two bets, one of which wins, and the token refuses its first payout."""
    chain, who = service.chain, DEV[2]
    settlement, token, key = chain.contracts.settlement, chain.contracts.token, chain.key("ends")
    follower = Following(f"{service.api}/events", who.address)
    following = asyncio.create_task(follower.run())
    async with receiver() as there, make_pool(database_url, size=1) as pool:
        hook = await registered(buyer, who, there.url)
        await active(buyer, hook["id"])
        trades = {}
        for side in ("yes", "no"):
            response, paid = await buyer.buy(bet("ends", who, side), who)
            assert response.status == 200, paid
            trades[side] = paid["receipt"]["tradeId"]
        await replayed(buyer, who.address, 4)
        chain.settle("ends", CAP)
        await replayed(buyer, who.address, 7)
        ids = chain.read(settlement.call("stakesOf", key, 0, 10))
        chain.send(token.call("freeze", who.address), who.address)
        chain.send(settlement.call("pay", key, ids), DEV[7].address)
        await replayed(buyer, who.address, 8)
        chain.send(token.call("unfreeze", who.address), who.address)
        call = settlement.call("pay", key, [ids[0]])
        async with pool.connection() as connection:
            wanted = IntentRequest("pay for events", 8453, KEEPER, "pay", call.to, call.data)
            await enqueue(connection, wanted)
        events = await replayed(buyer, who.address, 10)
        assert [each["type"] for each in events] == [
            "bet.settlement_submitted",
            "bet.placed",
            "bet.settlement_submitted",
            "bet.placed",
            "market.resolved",
            "position.won",
            "position.lost",
            "payout.failed",
            "payout.submitted",
            "payout.paid",
        ]
        assert [each["seq"] for each in events] == list(range(10))
        moments = [datetime.fromisoformat(each["createdAt"]) for each in events]
        assert moments == sorted(set(moments))  # each is dated after what came before it
        assert all(each.microsecond < 100 for each in moments)  # the chain's clock
        ended, won, lost, refused, sent, got = events[4:]
        assert (ended["tradeId"], ended["payload"]["resolvedOutcome"], ended["payload"]["refunded"]) == (
            None,
            "yes",
            False,
        )
        assert ended["payload"]["observedMarketCapUsd"] == 100_000_000
        assert (won["tradeId"], lost["tradeId"]) == (trades["yes"], trades["no"])
        assert (won["payload"]["payoutUsd"], lost["payload"]["payoutUsd"]) == (9.8, 0)
        for each in (refused, sent, got):
            assert (each["tradeId"], each["payload"]["amountUsd"]) == (trades["yes"], 9.8)
        assert sent["payload"]["txHash"] == got["payload"]["txHash"]
        assert (got["payload"]["refund"], "reason" in refused["payload"]) == (False, True)

        # Polling
        response, page = await buyer.get("/resolved", wallet=who.address)
        assert page["meta"]["version"] == "service-agent-api-v1"
        assert (page["events"], page["nextSince"]) == ([ended, won, lost], None)
        _, page = await buyer.get("/resolved", wallet=who.address, limit=1)
        polled = list(page["events"])
        while page["nextSince"] is not None:
            assert datetime.fromisoformat(page["nextSince"])
            _, page = await buyer.get("/resolved", wallet=who.address, limit=1, since=page["nextSince"])
            polled += page["events"]
        assert polled == [ended, won, lost]
        _, page = await buyer.get("/resolved", wallet=who.address, since=lost["createdAt"])
        assert (page["events"], page["nextSince"]) == ([], None)

        # Replay, in pages
        response, page = await buyer.get("/events/replay", wallet=who.address, fromSeq=3, limit=4)
        assert page["meta"]["version"] == "service-agent-api-v1"
        assert (page["events"], page["nextSeq"], page["lastSeq"]) == (events[3:7], 7, 9)
        _, page = await buyer.get("/events/replay", wallet=who.address, fromSeq=page["nextSeq"], limit=3)
        assert (page["events"], page["nextSeq"]) == (events[7:], None)

        # The stream of one trade, the stream of all, and the webhook
        async with buyer.session.get(
            f"{service.api}/events", params={"wallet": who.address, "tradeId": trades["no"]}
        ) as response:
            seen = []
            async for message in messages(response):
                seen += [] if message.data is None else [message.data]
                if len(seen) == 3:
                    break
        assert seen == [events[2], events[3], events[6]]
        await there.until(lambda: len(there.events()) >= 10)
        assert there.events() == events
        await until(lambda: len(follower.events) >= 10, "ten events", pause=0.1)
        assert follower.events == events
    following.cancel()


async def test_a_void_market_refunds_and_has_no_winner(buyer: Buyer, service: AgentService) -> None:
    chain, who = service.chain, DEV[3]
    response, paid = await buyer.buy(bet("void", who, "no"), who)
    assert response.status == 200, paid
    chain.warp_to(chain.terms("void")["voidsAfter"] + 1)
    key = chain.key("void")
    chain.send(chain.contracts.resolver.call("voidMarket", key), DEV[7].address)
    await replayed(buyer, who.address, 3)
    slug = (await buyer.get("/markets/void"))[1]["market"]["slug"]

    async def page() -> str:
        async with buyer.session.get(f"{service.url}/markets/{slug}") as response:
            return await response.text()

    async def is_void() -> bool:
        return "void, full refund" in await page()

    await until(is_void, "the page of a void market, whose stakes are not sent yet")
    ids = chain.read(chain.contracts.settlement.call("stakesOf", key, 0, 10))
    chain.send(chain.contracts.settlement.call("pay", key, ids), DEV[7].address)
    events = await replayed(buyer, who.address, 4)
    assert [each["type"] for each in events[2:]] == ["market.resolved", "payout.paid"]
    ended, paid_back = (each["payload"] for each in events[2:])
    assert (ended["status"], ended["resolvedOutcome"], ended["refunded"]) == ("void", "void", True)
    assert (paid_back["refund"], paid_back["amountUsd"]) == (True, 5)


async def test_invalid_page_queries_are_refused(buyer: Buyer) -> None:
    wallet = "0x" + "9" * 40
    cases: list[tuple[str, dict[str, object], int, str]] = [
        ("/events/replay", {}, 422, "invalid_wallet"),
        ("/events/replay", {"wallet": "no-address"}, 422, "invalid_wallet"),
        ("/events/replay", {"wallet": wallet, "fromSeq": -1}, 400, "invalid_request"),
        ("/events/replay", {"wallet": wallet, "fromSeq": "1.5"}, 400, "invalid_request"),
        ("/events/replay", {"wallet": wallet, "fromSeq": 2**70}, 400, "invalid_request"),
        ("/events/replay", {"wallet": wallet, "limit": 501}, 400, "invalid_request"),
        ("/resolved", {}, 422, "invalid_wallet"),
        ("/resolved", {"wallet": "0x" + "g" * 40}, 422, "invalid_wallet"),
        ("/resolved", {"wallet": wallet, "since": "yesterday"}, 400, "invalid_request"),
        ("/resolved", {"wallet": wallet, "since": "2026-13-01T00:00:00Z"}, 400, "invalid_request"),
        ("/resolved", {"wallet": wallet, "limit": 0}, 400, "invalid_request"),
        ("/resolved", {"wallet": wallet, "limit": 501}, 400, "invalid_request"),
    ]
    for path, query, status, code in cases:
        response, body = await buyer.get(path, **query)
        assert (response.status, body["error"]) == (status, code), (path, query, body)
        assert status != 400 or body["issues"]
    for path, query in (
        ("/events/replay", {"fromSeq": 99}),
        ("/events/replay", {"limit": 500}),
        ("/resolved", {"limit": 500, "since": "2026-11-21"}),
        ("/resolved", {"since": "2026-11-21T16:00:00+01:00"}),
    ):
        response, body = await buyer.get(path, wallet=wallet, **query)
        assert (response.status, body["events"]) == (200, []), body
