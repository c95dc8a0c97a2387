"""Every refusal of the agent surface, provoked through the API, with the whole error body."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest

from api.agent.errors import CATALOGUE
from core.agent.bet import Bet, idem_hash
from core.agent.book import YES
from core.chain import checksum
from core.db.engine import conninfo, make_pool
from core.db.switches import POLL_SECONDS
from core.money import USD
from scripts._stack import wallets
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet, header, sign
from tests.support.keeper_stakes import bound
from tests.support.signed_bets import add_trade
from tests.waiting import until

DEV = wallets.DEV
UNSERVED = 1  # a chain that no relayer serves
POOR = wallets.wallet("a wallet without money")


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    chain = base_service.chain
    chain.list("near")
    chain.list("small", weights=(1 * USD, 3 * USD))
    chain.list("elsewhere", known=False)
    chain.list("filled")
    base_service.start("indexer", "relayer", "api")
    return base_service


def is_one_sentence(text: str) -> bool:
    return re.fullmatch(r"\S.*[.!?]", text) is not None and re.search(r"[.!?] +[A-Z]", text) is None


def check_body(response: aiohttp.ClientResponse, body: Any, status: int, code: str) -> None:
    assert (response.status, body["error"]) == (status, code), body
    assert code in CATALOGUE
    assert is_one_sentence(body["message"]), body["message"]
    assert body["hint"]
    assert body["docsUrl"].startswith("http")
    assert body["retriable"] is (code in ("rate_limited", "internal_error", "platform_paused"))
    assert body["requestId"] == response.headers["X-Request-Id"]
    if status == 400:
        assert body["issues"][0]["problem"]
    if status == 429:
        assert int(response.headers["Retry-After"]) >= 1


REFUSALS: list[Any] = [
    ({"more": 1}, 400, "invalid_request"),
    ({"walletAddress": "0x12"}, 422, "invalid_wallet"),
    ({"sizeUsd": 0.5}, 422, "size_below_min"),
    ({"marketId": "none"}, 404, "market_not_found"),
    ({"side": "up"}, 422, "invalid_side"),
    ({"sizeUsd": 10.000001}, 422, "quote_required"),
    ({"sizeUsd": 20, "quoteId": "q_unknown"}, 422, "quote_required"),
    ({"sizeUsd": 20, "quoteId": "q_unknown", "minSharesOut": 1}, 422, "quote_mismatch"),
    ({"maxPriceCents": 40}, 422, "slippage_exceeded"),
    pytest.param({"minSharesOut": 100}, 422, "slippage_exceeded"),
    ({"marketId": "small"}, 422, "pool_impact_exceeded"),
    ({"marketId": "elsewhere"}, 422, "unsupported_market"),
]


@pytest.mark.parametrize(("change", "status", "code"), REFUSALS)
async def test_a_bet_is_refused(buyer: Buyer, change: dict[str, Any], status: int, code: str) -> None:
    response, body = await buyer.post({**bet("near", DEV[0]), **change})
    check_body(response, body, status, code)
    response, body = await buyer.post({**bet("near", DEV[0]), "simulate": True, **change})
    check_body(response, body, status, code)


async def test_the_balance_is_checked_only_with_a_payment(buyer: Buyer, service: AgentService) -> None:
    body = bet("near", POOR)
    response, challenge = await buyer.post(body)
    assert response.status == 402, challenge
    envelope = sign(challenge["accepts"][0], POOR, now=service.chain.now)
    response, refused = await buyer.post(body, headers=header(envelope))
    check_body(response, refused, 422, "insufficient_balance")
    _, simulated = await buyer.post({**body, "simulate": True})
    _, quoted = await buyer.get("/quote", marketId="near", sizeUsd=5, wallet=POOR.address)
    for shown in (simulated["receipt"], quoted["quote"]):
        assert "wallet_underfunded" in [each["code"] for each in shown["warnings"]]
    _, unnamed = await buyer.get("/quote", marketId="near", sizeUsd=5)
    assert "wallet_underfunded" not in [each["code"] for each in unnamed["quote"]["warnings"]]


async def test_a_bet_that_is_too_large_is_refused_with_the_largest_size(buyer: Buyer) -> None:
    response, refused = await buyer.post(bet("small", DEV[0]))
    check_body(response, refused, 422, "pool_impact_exceeded")
    largest = refused["details"]["largestSizeUsd"]
    assert (refused["details"]["limit"], 1 < largest < 5) == ("price", True)
    assert (await buyer.post(bet("small", DEV[0], size=largest)))[0].status == 402
    assert (await buyer.post(bet("small", DEV[0], size=round(largest + 0.00001, 6))))[0].status == 422
    size = 102_040.9  # a side of the feed's markets may hold 100,000 after the fee
    _, quoted = await buyer.get("/quote", marketId="near", side="no", sizeUsd=size)
    limits = {"quoteId": quoted["quote"]["quoteId"], "minSharesOut": 1}
    response, refused = await buyer.post(bet("near", DEV[0], side="no", size=size, **limits))
    check_body(response, refused, 422, "pool_impact_exceeded")
    assert refused["details"]["limit"] == "pot_cap"
    assert 10 < refused["details"]["largestSizeUsd"] < size


async def test_a_market_with_one_full_side_takes_bets_on_the_other(buyer: Buyer, service: AgentService) -> None:
    chain, who = service.chain, DEV[1]
    identity = (await buyer.get("/markets/filled"))[1]["market"]["id"]
    market = chain.read(chain.contracts.settlement.call("market", chain.key("filled")))
    size = market["potCap"] * 10_000 // (10_000 - market["feeBps"])
    given = bound(chain.deployment, chain.now, who, identity, YES, size, secrets.token_hex(8))
    await asyncio.to_thread(chain.send, chain.contracts.token.call("mint", checksum(who.address), size), who.address)
    settled = chain.contracts.settlement.call("settle", given.bet, given.authorization)
    await asyncio.to_thread(chain.send, settled, who.address)

    async def full() -> bool:
        return bool(
            (await buyer.get("/quote", marketId="filled", side="yes", sizeUsd=2))[1]["quote"]["largestSizeUsd"] == 0
        )

    await until(full, "the index to show the full side")
    response, refused = await buyer.post(bet("filled", DEV[0], side="yes", size=2))
    check_body(response, refused, 422, "pool_impact_exceeded")
    assert (refused["details"]["limit"], refused["details"]["largestSizeUsd"]) == ("pot_cap", 0)
    body = bet("filled", DEV[0], side="no", size=2)
    _, challenge = await buyer.post(body)
    response, receipt = await buyer.post(body, headers=header(sign(challenge["accepts"][0], DEV[0], now=chain.now)))
    assert response.status == 200, receipt


def _payload(**changes: Any) -> Any:
    def change(envelope: dict[str, Any]) -> dict[str, Any]:
        authorization = {**envelope["payload"]["authorization"], **changes}
        return {**envelope, "payload": {**envelope["payload"], "authorization": authorization}}

    return change


BAD_PAYMENTS = [
    (_payload(value="4999999"), "value"),
    (_payload(to=DEV[1].address), "to"),
    (_payload(validBefore="1"), "validBefore"),
    (_payload(nonce="0x" + "11" * 32), "signature"),
]
"""Each of its parts is tried in unit/test_agent_x402."""


async def test_a_bad_payment_is_a_fresh_challenge(buyer: Buyer, service: AgentService) -> None:
    headers = [{"X-PAYMENT": "%%%"}, {"X-PAYMENT": base64.b64encode(b"[1]").decode()}, {"X-PAYMENT": "A" * 33_000}]
    named = ["base64", "object", "is longer than 32768"]
    now = service.chain.now
    for change, name in BAD_PAYMENTS:
        body = bet("near", DEV[0])
        _, challenge = await buyer.post(body)
        headers.append(header(change(sign(challenge["accepts"][0], DEV[0], now=now))))
        named.append(name)
    for given, name in zip(headers, named, strict=True):
        response, body = await buyer.post(bet("near", DEV[0]), headers=given)
        assert response.status == 402, body
        assert name in body["error"], body["error"]
        assert body["accepts"][0]["scheme"] == "exact"


async def test_a_price_lock_is_good_for_one_matching_trade(
    buyer: Buyer, service: AgentService, database_url: str
) -> None:
    _, body = await buyer.get("/quote", marketId="near", side="yes", sizeUsd=25)
    quote = body["quote"]
    assert quote["tier"] == "locked"
    limits = {"quoteId": quote["quoteId"], "minSharesOut": quote["suggestedMinSharesOut"]}
    for change in ({"side": "no"}, {"sizeUsd": 26}):
        response, refused = await buyer.post({**bet("near", DEV[2], size=25, **limits), **change})
        check_body(response, refused, 422, "quote_mismatch")
    response, simulated = await buyer.post(bet("near", DEV[2], size=25, simulate=True, **limits))
    assert response.status == 200, simulated
    response, paid = await buyer.buy(bet("near", DEV[2], size=25, **limits), DEV[2])
    assert response.status == 200, paid
    assert paid["receipt"]["position"]["shares"] == quote["estimatedShares"]
    response, refused = await buyer.post(bet("near", DEV[2], size=25, **limits))
    check_body(response, refused, 422, "quote_mismatch")

    for age, status in ((45, 402), (61, 422)):  # a lock is good for a minute
        _, body = await buyer.get("/quote", marketId="near", side="yes", sizeUsd=25)
        old = {"quoteId": body["quote"]["quoteId"], "minSharesOut": 1}
        with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
            connection.execute(
                "UPDATE agent_quote SET expires_at = expires_at - make_interval(secs => %s) WHERE quote_id = %s",
                (age, old["quoteId"]),
            )
        response, answer = await buyer.post(bet("near", DEV[2], size=25, **old))
        assert response.status == status, answer
    check_body(response, answer, 422, "quote_expired")


async def test_quotes_are_limited(buyer: Buyer) -> None:
    answers = [await buyer.get("/quote", ip="192.0.2.7", marketId="near") for _ in range(31)]
    assert [response.status for response, _ in answers] == [200] * 30 + [429]
    check_body(*answers[-1], 429, "rate_limited")


async def test_balance_reads_are_limited(buyer: Buyer) -> None:
    """Each asks a node, whose limit would otherwise hit all bets."""
    wallets = [f"0x{number:040x}" for number in range(1, 62)]
    answers = [await buyer.get(f"/wallet/{wallet}/readiness", ip="192.0.2.77") for wallet in wallets]
    assert [response.status for response, _ in answers] == [200] * 60 + [429]
    check_body(*answers[-1], 429, "rate_limited")
    response, _ = await buyer.get(f"/wallet/{wallets[-1]}/readiness", ip="192.0.2.78")
    assert response.status == 200


async def test_trades_are_limited_and_a_pair_counts_once(buyer: Buyer, service: AgentService) -> None:
    who, ip = DEV[4], "192.0.2.8"
    for number in range(3):
        body = bet("near", who, size=1 + number)
        _, challenge = await buyer.post(body, ip=ip)
        envelope = sign(challenge["accepts"][0], who, now=service.chain.now)
        response, paid = await buyer.post(body, headers=header(envelope), ip=ip)
        assert response.status == 200, paid
    answers = [await buyer.post(bet("near", who), ip=ip) for _ in range(8)]
    assert [response.status for response, _ in answers] == [402] * 7 + [429]
    check_body(*answers[-1], 429, "rate_limited")


async def test_the_payer_of_an_accepted_payment_may_ask_for_its_outcome(
    buyer: Buyer, service: AgentService, database_url: str
) -> None:
    """Another API process accepted ten trades that are in flight: asking this one for each is no bet."""
    who, ip, market = wallets.wallet("who asks"), "192.0.2.10", service.chain.key("near")
    bodies = [bet("near", who, size=1 + number / 100) for number in range(10)]  # none duplicates another
    async with make_pool(database_url, size=1, autocommit=True) as pool, pool.connection() as connection:
        for body in bodies:
            amount = round(body["sizeUsd"] * USD)
            trade = Bet(market, 0, amount, 0, who.address.lower(), idem_hash(body["idemKey"]))
            async with connection.transaction():
                await add_trade(connection, trade, trade.idem_hash, trade.idem_hash, chain_id=UNSERVED)
    answers = await asyncio.gather(*(buyer.post(body, ip=ip) for body in bodies))
    assert {said["message"] for _, said in answers} == {answers[0][1]["message"]}
    assert "settling" in answers[0][1]["message"]
    response, said = await buyer.post(bet("near", who), ip=ip)
    assert response.status == 402, said


async def test_a_strangers_calls_do_not_use_up_a_wallets_rate(buyer: Buyer, service: AgentService) -> None:
    """A settled authorization lies open on the chain; sent again with other keys it counts against its sender."""
    who, stranger = DEV[7], "192.0.2.9"
    settled = bet("near", who, size=2)
    _, challenge = await buyer.post(settled)
    envelope = sign(challenge["accepts"][0], who, now=service.chain.now)
    response, paid = await buyer.post(settled, headers=header(envelope))
    assert response.status == 200, paid
    replays = [await buyer.post(bet("near", who, size=2), headers=header(envelope), ip=stranger) for _ in range(11)]
    assert [response.status for response, _ in replays] == [422] * 10 + [429]
    check_body(*replays[0], 422, "payment_invalid")
    check_body(*replays[-1], 429, "rate_limited")
    response, paid = await buyer.buy(bet("near", who, size=2), who)
    assert response.status == 200, paid


JUNK = {"X-PAYMENT": "x"}


@pytest.mark.parametrize(
    ("change", "headers", "answer"),
    [
        ({"side": "zzz"}, JUNK, 422),
        ({"marketId": "none"}, JUNK, 404),
        ({}, JUNK, 402),
        ({"side": "zzz"}, "a forged payment", 422),
        ({}, "a forged payment", 402),
        ({"idemKey": "settled-before-0001"}, "its payment", 200),
    ],
)
async def test_a_payment_header_does_not_bypass_the_limit(
    buyer: Buyer, service: AgentService, change: dict[str, Any], headers: Any, answer: int
) -> None:
    # A new address for each case: one alone may trade 300 times a minute.
    who, ip = wallets.wallet(f"limited {change} {headers}"), f"192.0.2.{sum(map(ord, f'{change}{headers}')) % 250}"
    chain = service.chain
    chain.give(who.address, 10_000_000)
    if answer == 200:
        body = bet("near", who, **change)
        _, challenge = await buyer.post(body)
        headers = header(sign(challenge["accepts"][0], who, now=chain.now))
        response, paid = await buyer.post(body, headers=headers)
        assert response.status == 200, paid
    elif headers is not JUNK:
        _, challenge = await buyer.post(bet("near", who))
        envelope = sign(challenge["accepts"][0], who, now=chain.now)
        headers = header(_payload(nonce="0x" + "22" * 32)(envelope))
    # The first receipt is counted with its bet.
    free = 1 if answer == 200 else 0
    answers = [await buyer.post({**bet("near", who), **change}, headers=headers, ip=ip) for _ in range(free + 11)]
    assert [response.status for response, _ in answers] == [answer] * (free + 10) + [429]
    check_body(*answers[-1], 429, "rate_limited")


async def test_the_operators_switch_is_seen_within_two_seconds(
    buyer: Buyer, service: AgentService, database_url: str
) -> None:
    settled = bet("near", DEV[3])
    _, first = await buyer.buy(settled, DEV[3])
    assert (await buyer.get("/health"))[1]["health"]["ok"] is True
    query = (
        "INSERT INTO operator_switch (name, is_on, changed_by) VALUES ('trading_paused', %s, 'test') "
        "ON CONFLICT (name) DO UPDATE SET is_on = excluded.is_on"
    )

    async def answered_with(status: int) -> tuple[aiohttp.ClientResponse, Any]:
        async def answered() -> tuple[aiohttp.ClientResponse, Any] | None:
            found = await buyer.post(bet("near", DEV[3]))
            return found if found[0].status == status else None

        return await until(answered, f"the status {status}", pause=0.1)

    assert POLL_SECONDS <= 1
    with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
        connection.execute(query, (True,))
        try:
            response, refused = await answered_with(503)
            check_body(response, refused, 503, "platform_paused")
            assert (await buyer.get("/health"))[1]["health"]["ok"] is False
            response, replayed = await buyer.post(settled)
            assert replayed["receipt"] == first["receipt"]
        finally:
            connection.execute(query, (False,))
    await answered_with(402)


async def test_the_same_bet_under_a_new_key_waits_for_the_first(buyer: Buyer, service: AgentService) -> None:
    who, chain = DEV[6], service.chain
    first, second = bet("near", who, size=7), bet("near", who, size=7)
    with chain.held():
        _, challenge = await buyer.post(first)
        envelope = sign(challenge["accepts"][0], who, now=chain.now)
        paying = asyncio.create_task(buyer.post(first, headers=header(envelope)))
        for _ in range(100):
            response, refused = await buyer.post(second)
            if response.status == 429:
                break
            await asyncio.sleep(0.05)
        check_body(response, refused, 429, "rate_limited")
        assert refused["tradeId"] == challenge["accepts"][0]["extra"]["intentNonce"]
    response, paid = await paying
    assert response.status == 200, paid
    response, _ = await buyer.buy(second, who)
    assert response.status == 200
    for key in (first["idemKey"], second["idemKey"]):
        assert chain.stake(who.address, key)


async def test_an_unknown_outcome_is_never_a_second_challenge(buyer: Buyer, service: AgentService) -> None:
    who, chain = DEV[1], service.chain
    body = bet("near", who, size=3)
    _, challenge = await buyer.post(body)
    envelope = sign(challenge["accepts"][0], who, now=chain.now)
    with chain.held():
        response, unknown = await buyer.post(body, headers=header(envelope))
        check_body(response, unknown, 500, "internal_error")
        assert unknown["txHash"].startswith("0x")
        wakes = unknown_trades(service)
        response, again = await buyer.post(body)
        check_body(response, again, 429, "rate_limited")  # still settling: nothing is wrong, and no alarm is raised
        assert (again["txHash"], again["retriable"]) == (unknown["txHash"], True), again
        assert unknown_trades(service) == wakes
    for _ in range(100):
        response, paid = await buyer.post(body)
        if response.status == 200:
            break
        await asyncio.sleep(0.1)
    assert paid["receipt"]["txHash"] is not None


def unknown_trades(service: AgentService) -> str:
    return next(line for line in service.metrics("api").splitlines() if line.startswith("vpm_agent_trades_unknown_"))


READS = [
    ("/markets/none", 404, "market_not_found"),
    ("/markets/none/research", 404, "market_not_found"),
    ("/markets?limit=0", 400, "invalid_request"),
    ("/markets?limit=201", 400, "invalid_request"),
    ("/markets?cursor=AAAA", 400, "invalid_request"),
    ("/markets?status=closed", 400, "invalid_request"),
    ("/quote", 400, "invalid_request"),
    ("/quote?marketId=near&sizeUsd=1000000000.000001", 400, "invalid_request"),
    ("/quote?marketId=near&sizeUsd=x", 400, "invalid_request"),
    ("/quote?marketId=near&sizeUsd=0.99", 422, "size_below_min"),
    ("/quote?marketId=near&side=up", 422, "invalid_side"),
    ("/quote?marketId=none", 404, "market_not_found"),
    ("/positions", 422, "invalid_wallet"),
    ("/positions?wallet=0x12", 422, "invalid_wallet"),
    ("/result", 400, "invalid_request"),
    ("/result?marketId=none", 404, "market_not_found"),
    ("/proof/0x12", 404, "not_found"),
    ("/proof/0x" + "00" * 32, 404, "not_found"),
    ("/wallet/0x12/readiness", 422, "invalid_wallet"),
    ("/nothing", 404, "not_found"),
]


@pytest.mark.parametrize(("path", "status", "code"), READS)
async def test_a_read_is_refused(buyer: Buyer, path: str, status: int, code: str) -> None:
    response, body = await buyer.get(path)
    check_body(response, body, status, code)


async def test_the_flag_switches_everything_off(service: AgentService, tmp_path: Path, database_url: str) -> None:
    folder = Path(service.env["VPM_DEPLOYMENTS_DIR"])
    with agent_service(service.chain, database_url, folder, tmp_path, VPM_AGENT_ENABLED="0") as off:
        off.start("api")
        async with aiohttp.ClientSession() as session:
            for path in ("/markets", "/health", "/nothing", "/quote?marketId=near"):
                async with session.get(off.api + path) as response:
                    check_body(response, json.loads(await response.read()), 404, "platform_disabled")
            async with session.post(off.api + "/trade", json={}) as response:
                check_body(response, await response.json(), 404, "platform_disabled")
