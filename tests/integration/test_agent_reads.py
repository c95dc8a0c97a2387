"""The reads over HTTP: whole bodies against their documented models, and numbers against the contract."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from api.agent.bodies.markets import Markets, OneMarket
from api.agent.bodies.research import ResearchBody
from api.agent.bodies.trades import QuoteBody
from api.agent.platform import GettingStarted, HealthBody, ReadinessBody, StatsBody
from api.operations import Body
from core.agent.bet import market_key
from core.iso import iso
from core.money import loads
from scripts._stack import wallets
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer

DEV = wallets.DEV
CAP = 100_000_000 * 10**8
BOUNDS = [50_000_000 * 10**8, 100_000_000 * 10**8, 200_000_000 * 10**8]
BUCKETS = ["under-50m", "50m-to-100m", "100m-to-200m", "from-200m"]


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    chain = base_service.chain
    chain.observe(80_000_000 * 10**8)
    chain.list("target")
    chain.list("buckets", kind=1, bounds=BOUNDS, feed="AIXBT/market_cap")
    chain.list("updown", kind=2)
    base_service.start("indexer", "relayer", "api")
    return base_service


async def exact(buyer: Buyer, path: str, model: type[Body]) -> Any:
    """Return the body with exact numbers, after checking it against its model: every key, its type and nullability."""
    async with buyer.session.get(buyer.service.api + buyer.named(path)) as response:
        raw = await response.read()
        assert response.status == 200, raw
    body = loads(raw)
    msgspec.json.decode(raw, type=model)
    required = set(model.__struct_encode_fields__)
    assert required <= set(body)
    assert body["meta"]["version"] == "service-agent-api-v1"
    return body


async def test_markets(buyer: Buyer, service: AgentService) -> None:
    body = await exact(buyer, "/markets", Markets)
    found = {service.chain.names[each["id"]]: each for each in body["markets"]}
    assert body["count"] == len(found) == 3
    assert body["nextCursor"] is None
    sides = {name: [each["key"] for each in market["outcomes"]] for name, market in found.items()}
    assert sides == {"target": ["yes", "no"], "buckets": BUCKETS, "updown": ["up", "down"]}
    target = found["target"]
    assert target["category"] == "market_cap"
    assert target["chainId"] == "base"
    assert target["targetMarketCapUsd"] == CAP // 10**8
    assert target["settlement"] == {
        "contract": service.chain.contracts.settlement.address,
        "marketKey": "0x" + market_key(target["id"]).hex(),
    }
    terms = service.chain.terms("updown")
    assert [found["updown"][name] for name in ("startAt", "endsAt", "settlesAfter")] == [
        iso(terms[name]) for name in ("startAt", "endsAt", "settlesAfter")
    ]
    assert target["startAt"] is None
    assert {outcome["priorPct"] for outcome in target["outcomes"]} == {50}
    assert target["virtualLiquidityUsd"] == 1_000
    assert [each["lowerUsd"] for each in found["buckets"]["outcomes"]] == [None, *(each // 10**8 for each in BOUNDS)]
    one = await exact(buyer, "/markets/target", OneMarket)
    assert {**one["market"], "stats": None} == {**target, "stats": None}


async def test_market_filters(buyer: Buyer, service: AgentService) -> None:
    async def ids(**query: object) -> list[str]:
        _, body = await buyer.get("/markets", **query)
        assert body["count"] == len(body["markets"])
        return sorted(service.chain.names[each["id"]] for each in body["markets"])

    assert await ids(type="market_cap_range") == ["buckets"]
    assert await ids(type="price_direction") == ["updown"]
    assert await ids(token="AiXbT") == ["buckets"]
    assert await ids(ids="target,updown,none") == ["target", "updown"]
    assert await ids(ids="target,updown,none", status="all") == ["target", "updown"]
    for empty in ("", ",", " , "):  # an empty list to one reader, no filter to another
        response, refused = await buyer.get("/markets", ids=empty)
        assert (response.status, refused["error"], refused["issues"][0]["field"]) == (400, "invalid_request", "ids")


@pytest.mark.parametrize("name", ["target", "buckets", "updown"])
async def test_research(buyer: Buyer, service: AgentService, name: str) -> None:
    research = (await exact(buyer, f"/markets/{name}/research", ResearchBody))["research"]
    assert research["advisory"] is None
    feed = "AIXBT/market_cap" if name == "buckets" else None
    assert research["observations"][0]["value"] * 10**8 == service.chain.value(feed)
    related = {service.chain.names[each["id"]] for each in research["related"]}
    assert related <= {"target", "buckets", "updown"} - {name}
    assert research["resolutionRules"]["endsAt"] == research["market"]["endsAt"]
    assert (research["ladder"] is None) == (name != "buckets")
    assert (research["tokenSnapshot"] is None) == (name != "target")


@pytest.mark.parametrize(
    ("name", "side", "size"),
    [("target", "yes", "1"), ("target", "no", "12.345678"), ("buckets", BUCKETS[2], "999.99"), ("updown", "up", "10")],
)
async def test_a_quote_equals_the_contracts(
    buyer: Buyer, service: AgentService, name: str, side: str, size: str
) -> None:
    path = f"/quote?marketId={name}&side={side}&sizeUsd={size}"
    quote = (await exact(buyer, path, QuoteBody))["quote"]
    outcome = {"yes": 0, "no": 1, "up": 0, BUCKETS[2]: 2}[side]
    units = int(Decimal(size) * 10**6)
    said = service.chain.read(service.chain.contracts.settlement.call("quote", service.chain.key(name), outcome, units))
    shares, fee, before, after = said.values() if isinstance(said, dict) else said
    assert int(quote["estimatedShares"] * 10**6) == shares
    assert int(quote["feeUsd"] * 10**6) == fee
    assert quote["feeUsd"] + quote["netStakeUsd"] == quote["sizeUsd"] == Decimal(size)
    assert quote["tier"] == ("locked" if units > 10_000_000 else "simple")
    assert abs(Decimal(quote["impactPct"]) - Decimal(after - before) / 10**16) < Decimal("0.0001")
    if name == "buckets":
        value = service.chain.value("AIXBT/market_cap")
        assert quote["ladder"]["currentBucketKey"] == BUCKETS[sum(bound <= value for bound in BOUNDS)]
    if name == "target":
        assert quote["tokenSnapshot"]["distanceToTargetPct"] == 25
        assert quote["tokenSnapshot"]["reachedTarget"] is False


async def test_platform(buyer: Buyer, service: AgentService) -> None:
    ready = (await exact(buyer, f"/wallet/{DEV[0].address}/readiness", ReadinessBody))["readiness"]
    balance = service.chain.read(service.chain.contracts.token.call("balanceOf", DEV[0].address))
    assert int(ready["usdcBalanceUsd"] * 10**6) == balance
    assert (ready["canBetMin"], ready["minBetUsd"], ready["simpleTierMaxUsd"]) == (True, 1, 10)
    assert ready["funding"]["usdcAddress"] == service.chain.contracts.token_facts.address
    poor = (await exact(buyer, f"/wallet/0x{'12' * 20}/readiness", ReadinessBody))["readiness"]
    assert (poor["canBetMin"], poor["usdcBalanceUsd"]) == (False, 0)
    stats = (await exact(buyer, "/stats", StatsBody))["stats"]
    assert service.chain.contracts.settlement.address in stats["custody"]
    assert "the relayer, which decides which bet a payment with a random nonce is for" in stats["custody"]
    assert "extra.receiveNonce" in stats["custody"]
    health = (await exact(buyer, "/health", HealthBody))["health"]
    assert health["ok"] is True
    assert health["attester"] == wallets.ATTESTATION.address
    started = await exact(buyer, "/getting-started", GettingStarted)
    assert [each["step"] for each in started["steps"]] == [1, 2, 3, 4, 5, 6]
    assert [each["method"] for each in started["steps"]] == ["GET", "GET", "GET", "POST", "GET", "POST"]
