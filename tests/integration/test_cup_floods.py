"""What one address, and all together, can write into the tournament's ledger for nothing."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from limits import RateLimitItemPerHour, RateLimitItemPerMinute

from api.cup import service as cup_service
from tests.support.cup_rig import BASE, Answer, Cup, Signer, cup_door

pytestmark = pytest.mark.asyncio(loop_scope="module")

FLOOD, BYSTANDER = "203.0.113.9", "203.0.113.10"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cup(database_url: str) -> AsyncIterator[Cup]:
    async with cup_door(database_url, VPM_TRUST_PROXY="1") as door:
        yield door


async def post(cup: Cup, path: str, body: object, address: str) -> Answer:
    headers = {"X-Forwarded-For": address}
    async with cup.session.post(f"{cup.url}{BASE}{path}", json=body, headers=headers) as response:
        return Answer(response.status, await response.json(), dict(response.headers))


def fresh() -> dict[str, str]:
    return {"walletAddress": "0x" + secrets.token_hex(20)}


async def rows(cup: Cup) -> int:
    count = "SELECT (SELECT count(*) FROM cup_transaction) + (SELECT count(*) FROM cup_enrolment)"
    return int(await cup.value(count))


@pytest.mark.thorough
async def test_an_address_opens_only_so_many_wallets_a_day(cup: Cup) -> None:
    before, first = await rows(cup), fresh()
    assert (await post(cup, "/wallet", first, FLOOD)).body["minted"] is True
    for _ in range(499):
        assert (await post(cup, "/wallet", fresh(), FLOOD)).status == 200
    refused = await post(cup, "/wallet", fresh(), FLOOD)
    assert (refused.status, refused.body["error"]) == (429, "rate_limited")
    assert "500 wallets a day" in refused.body["message"]
    assert int(refused.headers["Retry-After"]) == refused.body["retryAfter"] > 0
    assert await rows(cup) == before + 500
    again = await post(cup, "/wallet", first, FLOOD)
    assert (again.status, again.body["minted"], again.body["balancePaper"]) == (200, False, 10_000)
    assert (await post(cup, "/wallet", fresh(), BYSTANDER)).body["minted"] is True


async def test_enrolments_of_new_wallets_are_limited_per_address(cup: Cup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cup_service, "ENROLMENTS_EACH_CALLER", RateLimitItemPerHour(2))
    address, signers = "203.0.113.11", [Signer() for _ in range(3)]
    answers = [await post(cup, "/agent/enroll", each.enrolment(), address) for each in signers]
    assert [each.status for each in answers] == [200, 200, 429]
    assert (await post(cup, "/agent/enroll", signers[0].enrolment(), address)).body["created"] is False


async def test_all_addresses_together_open_only_so_many_wallets(cup: Cup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cup_service, "CLAIMS_OF_ALL", RateLimitItemPerHour(3, 2))  # a separate window
    answers = [await post(cup, "/wallet", fresh(), f"203.0.113.{number}") for number in range(20, 25)]
    assert [each.status for each in answers] == [200, 200, 200, 429, 429]
    assert "in total" in answers[-1].body["message"]


@pytest.mark.parametrize("network", ["198.51.100.{}", "2001:db8:7:{}::1"])
async def test_a_network_opens_only_so_many_wallets_and_leaves_room_for_others(
    cup: Cup, monkeypatch: pytest.MonkeyPatch, network: str
) -> None:
    monkeypatch.setattr(cup_service, "CLAIMS_EACH_NETWORK", RateLimitItemPerHour(2))
    monkeypatch.setattr(cup_service, "CLAIMS_OF_ALL", RateLimitItemPerHour(6, 3))  # a separate window
    answers = [await post(cup, "/wallet", fresh(), network.format(number)) for number in range(1, 9)]
    assert [each.status for each in answers] == [200] * 2 + [429] * 6
    assert "network" in answers[-1].body["message"]
    assert (await post(cup, "/wallet", fresh(), "192.0.2.1")).status == 200


async def test_an_address_writes_only_so_much_with_however_many_wallets(
    cup: Cup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cup_service, "WRITES_EACH_CALLER", RateLimitItemPerMinute(4))
    address, slug, live = "203.0.113.12", await cup.market(), await cup.open_round()
    signers = [await cup.claimed() for _ in range(3)]
    statuses = []
    for signer in signers:
        statuses.append((await post(cup, "/trade", signer.trade(slug, "yes", 100), address)).status)
        statuses.append(
            (await post(cup, "/roulette/bet", signer.bet(live.round_no, "colour:red", 1000), address)).status
        )
    assert statuses == [200, 200, 200, 200, 429, 429]
    assert (await post(cup, "/trade", signers[2].trade(slug, "yes", 100), BYSTANDER)).status == 200


@pytest.mark.parametrize("network", ["198.18.7.{}", "2001:db8:8:{}::1"])
async def test_a_network_enrolls_and_writes_only_what_two_addresses_would(
    cup: Cup, monkeypatch: pytest.MonkeyPatch, network: str
) -> None:
    """A caller with an IPv6 /48 has 65,536 networks, and what they write is kept for good."""
    monkeypatch.setattr(cup_service, "ENROLMENTS_EACH_NETWORK", RateLimitItemPerHour(2))
    monkeypatch.setattr(cup_service, "WRITES_EACH_NETWORK", RateLimitItemPerMinute(2))
    slug, statuses = await cup.market(), []
    signers = [await cup.claimed() for _ in range(3)]
    for number, signer in enumerate(signers, 1):
        address = network.format(number)
        enrolled = await post(cup, "/agent/enroll", signer.enrolment(), address)
        traded = await post(cup, "/trade", signer.trade(slug, "yes", 100), address)
        statuses.append((enrolled.status, traded.status))
    assert statuses == [(200, 200), (200, 200), (429, 429)]
    assert "network" in enrolled.body["message"]
    assert "network" in traded.body["message"]
    assert (await post(cup, "/agent/enroll", signers[2].enrolment(), BYSTANDER)).status == 200
    assert (await post(cup, "/trade", signers[2].trade(slug, "yes", 100), BYSTANDER)).status == 200


async def test_refused_requests_do_not_count_against_the_network(cup: Cup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cup_service, "WRITES_EACH_WALLET", RateLimitItemPerMinute(1))
    monkeypatch.setattr(cup_service, "WRITES_EACH_CALLER", RateLimitItemPerMinute(2, 2))  # windows of their own
    monkeypatch.setattr(cup_service, "WRITES_EACH_NETWORK", RateLimitItemPerMinute(2, 3))
    slug, address = await cup.market(), "198.18.9.1"
    loop, neighbour = await cup.claimed(), await cup.claimed()
    statuses = [(await post(cup, "/trade", loop.trade(slug, "yes", 100), address)).status for _ in range(4)]
    assert statuses == [200, 429, 429, 429]
    assert (await post(cup, "/trade", neighbour.trade(slug, "yes", 100), address)).status == 200
