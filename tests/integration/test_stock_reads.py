"""The read endpoints through the door: bodies against view calls, caching, errors, cron, documentation."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import psycopg
import pytest

from api.stock.bodies import MarketsBody, OwnerBody, PricesBody
from api.stock.cron import CronReport
from api.stock.health import HealthBody
from api.stock.proof_facts import ProofBody
from core.chain import Contract
from core.contracts.abi import abi
from core.db.engine import connect, conninfo
from core.service import jobs
from scripts._stack import wallets
from tests.support import programs
from tests.support.bodies import hold
from tests.support.service import Door
from tests.support.stock_bodies import hold_market, hold_position
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import CRON_SECRET, StockService
from tests.waiting import until

DAY = 86_400
BETTOR = wallets.DEV[1]


@pytest.fixture(scope="module")
def service(stock_venue: StockService) -> StockService:
    """A venue with a life behind it: a paid market, a refund drill, a live one with a rationed bet, one just opened."""
    chain = stock_venue.chain
    live_a_little(chain)
    stock_venue.start("indexer", "relayer", "api")
    return stock_venue


def live_a_little(chain: StockChain) -> None:
    chain.push(FLAT_PRICE)
    paid = chain.open_market(strike_in=60, lasts=60)
    chain.enter(BETTOR, paid, 0, 20 * USDG)
    chain.enter(wallets.DEV[2], paid, 1, 30 * USDG)
    chain.warp_to(chain.now + 61)
    chain.push(FLAT_PRICE + 1)
    chain.warp_to(chain.now + 61)
    chain.send(chain.contracts.resolver.call("resolve", paid), wallets.DEV[5].address)
    chain.send(chain.contracts.settler.call("deliver", chain.positions(paid)), wallets.DEV[5].address)
    chain.send(chain.contracts.settler.call("sweepFees"), wallets.DEV[5].address)
    drill = chain.open_market(strike_in=60, lasts=60, family=2)
    chain.enter(wallets.DEV[3], drill, 1, 7 * USDG)
    chain.warp_to(chain.now + 121)
    chain.send(chain.contracts.resolver.call("resolve", drill), wallets.DEV[5].address)
    chain.send(chain.contracts.settler.call("deliver", chain.positions(drill)), wallets.DEV[5].address)
    rationed = chain.open_market(strike_in=60, lasts=5 * DAY, family=1, seed=USDG)
    chain.enter(BETTOR, rationed, 0, 50 * USDG)
    chain.enter(wallets.OPENER, rationed, 1, 5 * USDG)
    chain.warp_to(chain.now + 61)
    chain.open_market(strike_in=DAY, lasts=DAY, ticker="TSLA")


@pytest.fixture
def chain(service: StockService) -> StockChain:
    return service.chain


@pytest.fixture
async def door(service: StockService) -> AsyncIterator[Door]:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        yield Door(session, service.url)


async def test_prices_are_the_feeds_latest_rounds(door: Door, chain: StockChain) -> None:
    body = await door.until("/api/prices", lambda shown: shown["status"] == "live")
    hold(PricesBody, body)
    assert [reading["ticker"] for reading in body["readings"]] == [feed.ticker for feed in chain.deployment.price_feeds]
    for reading, feed in zip(body["readings"], chain.deployment.price_feeds, strict=True):
        latest = chain.read(chain.feed_contract(feed.ticker).call("latestRoundData"))
        assert reading["feed"] == feed.proxy
        assert (reading["roundId"], reading["answer"], reading["updatedAt"]) == (
            str(latest[0]),
            str(latest[1]),
            latest[3],
        )
    chain.push(FLAT_PRICE + 7, ticker="COIN")
    body = await door.until("/api/prices", lambda b: b["readings"][-1]["answer"] == str(FLAT_PRICE + 7))


@pytest.mark.thorough
async def test_a_feed_that_cannot_be_read_keeps_its_last_good_reading(door: Door, chain: StockChain) -> None:
    before = await door.until("/api/prices", lambda b: b["status"] == "live")
    feed = chain.feed("COIN").proxy
    code = chain.ask("eth_getCode", feed, "latest")
    chain.ask("anvil_setCode", feed, "0x60006000fd")  # reverts on every call
    try:
        chain.mine()
        body = await door.until("/api/prices", lambda b: b["status"] == "stale-cache")
        hold(PricesBody, body)
        assert [each["ticker"] for each in body["readings"] if each["stale"]] == ["COIN"]
        assert [{**each, "stale": False} for each in body["readings"]] == before["readings"]
        response, health = await door.get("/api/health")
        feeds = next(each for each in health["checks"] if each["name"] == "feeds")
        assert (response.status, feeds["ok"], feeds["detail"]) == (503, False, "no round of COIN")
    finally:
        chain.ask("anvil_setCode", feed, code)
        chain.mine()
    after = await door.until("/api/prices", lambda b: b["status"] == "live")
    assert after["readings"] == before["readings"]


async def test_every_market_newest_first_as_view_calls_say(door: Door, chain: StockChain) -> None:
    count = chain.read(chain.contracts.settler.call("marketCount"))
    body = await door.until("/api/markets", lambda b: len(b["markets"]) == count)
    hold(MarketsBody, body)
    assert (body["deployed"], body["status"], body["stale"]) == (True, "deployed", False)
    assert [int(market["id"]) for market in body["markets"]] == list(range(count, 0, -1))
    for market in body["markets"]:
        hold_market(chain, market, chain.block)
    assert {market["family"] for market in body["markets"]} == {"daily", "weekly", "drill"}
    assert body["markets"][0]["opener"] == wallets.OPENER.address


async def test_pages_only_when_asked(door: Door) -> None:
    _, everything = await door.get("/api/markets")
    ids = [market["id"] for market in everything["markets"]]
    _, page = await door.get("/api/markets?limit=2")
    assert [market["id"] for market in page["markets"]] == ids[:2]
    _, page = await door.get(f"/api/markets?limit=2&before={ids[1]}")
    assert [market["id"] for market in page["markets"]] == ids[2:4]
    for bad in ("limit=0", "limit=x", "before=0", "limit=1&limit=2", f"before={2**70}"):
        response, body = await door.get(f"/api/markets?{bad}")
        assert (response.status, body["error"]) == (400, "invalid_request"), bad


@pytest.mark.parametrize("market_id", ["0", "999", "01", "-1", "abc", "9" * 30, "1%20", "1.0", "٣"])
async def test_an_id_that_was_never_listed(door: Door, market_id: str) -> None:
    response, body = await door.get(f"/api/markets/{market_id}")
    assert (response.status, body["error"]) == (404, "market_not_found")
    assert set(body) == {"error", "message"}


async def test_an_owners_positions_and_totals(door: Door, chain: StockChain) -> None:
    owner = BETTOR.address
    _, body = await door.get(f"/api/positions?owner={owner.lower()}")
    hold(OwnerBody, body)
    assert (body["owner"], body["deployed"], body["stale"]) == (owner, True, False)
    views = {}
    for market_id in range(1, chain.read(chain.contracts.settler.call("marketCount")) + 1):
        for each in chain.positions(market_id):
            view = chain.read(chain.contracts.settler.call("position", each))
            if view["owner"] == owner.lower():
                views[each] = view
    assert {int(each["id"]) for each in body["positions"]} == set(views)
    _, listed = await door.get("/api/markets")
    markets = {market["id"]: market for market in listed["markets"]}
    for each in body["positions"]:
        market = markets[each["marketId"]]
        hold_position(chain, each, chain.block, settled=not each["open"])
        for name in ("question", "ticker", "href", "phase", "status", "winner", "finalTime"):
            assert each[name] == market[name]
        assert each["open"] == (market["phase"] in ("opens", "live", "frozen"))
    rationed = next(each for each in body["positions"] if each["open"])
    assert (rationed["offered"], rationed["accepted"], rationed["refused"]) == (
        str(50 * USDG),
        str(9 * USDG),
        str(41 * USDG),
    )
    closed = [each for each in body["positions"] if not each["open"]]
    totals = body["totals"]
    assert totals["staked"] == str(sum(view["offered"] for view in views.values()))
    assert totals["accepted"] == str(sum(view["accepted"] for view in views.values()))
    assert totals["accrued"] == rationed["accrued"]
    assert totals["paid"] == str(sum(int(each["paidOut"] or 0) for each in closed))
    assert totals["deliverable"] == str(
        sum(chain.read(chain.contracts.settler.call("settlement", each))[4] for each in views)
    )
    assert totals["open"] == 1
    for spelling in (owner, owner.upper().replace("0X", "0x"), "0X" + owner[2:]):
        response, same = await door.get(f"/api/positions?owner={spelling}")
        assert (response.status, same["owner"]) == (200, owner)


@pytest.mark.parametrize(
    "query", ["", "?owner=", "?owner=0x12", "?owner=vitalik.eth", f"?owner=0x{'1' * 40}&owner=0x{'2' * 40}"]
)
async def test_a_missing_or_malformed_owner(door: Door, query: str) -> None:
    response, body = await door.get(f"/api/positions{query}")
    assert (response.status, body["error"]) == (400, "invalid_request")
    assert "owner" in body["message"]


async def test_thirty_one_position_requests_a_minute(door: Door) -> None:
    for _ in range(30):
        response, _ = await door.get(f"/api/positions?owner={BETTOR.address}", ip="192.0.2.30")
        assert response.status == 200
    response, body = await door.get(f"/api/positions?owner={BETTOR.address}", ip="192.0.2.30")
    assert (response.status, body["error"]) == (429, "rate_limited")
    assert 1 <= int(response.headers["Retry-After"]) <= 60


async def test_the_address_asked_about_is_in_no_log_and_no_metric(service: StockService, door: Door) -> None:
    secret = "0x" + "5ec2e7" * 6 + "5ec2"
    for query in (secret, secret.upper().replace("0X", "0x")):
        response, _ = await door.get(f"/api/positions?owner={query}")
        assert response.status == 200
    await door.get(f"/api/positions?owner={secret}zz")
    assert "5ec2e75ec2e7" not in service.log("api").lower()
    assert "5ec2e75ec2e7" not in service.metrics("api").lower()


async def test_the_proof_adds_up_on_the_chain(door: Door, chain: StockChain) -> None:
    settler, token = chain.contracts.settler, chain.contracts.token
    count = chain.read(settler.call("marketCount"))

    def is_whole(body: Any) -> bool:
        listed = [each["value"] for each in body["counters"] if each["label"] == "Markets listed"]
        return listed == [str(count)] and body["solvency"] and body["safe"] and not (body["missing"] or body["stale"])

    body = await door.until("/api/proof", is_whole)
    hold(ProofBody, body)
    assert (body["status"], body["stale"]) == ("deployed", False)
    assert {each["name"]: each["address"] for each in body["contracts"]} == {
        name: contract.address for name, contract in chain.deployment.contracts.items()
    }
    assert all(
        chain.ask("eth_getTransactionReceipt", each["deployTx"])["status"] == "0x1" for each in body["contracts"]
    )
    safe = Contract(body["safe"]["address"], abi("Safe"))
    assert body["safe"]["threshold"] == chain.read(safe.call("getThreshold"))
    assert body["safe"]["owners"] == len(chain.read(safe.call("getOwners")))
    (solvency,) = body["solvency"]  # no node of Base is known here
    assert (solvency["contract"], solvency["chain"], solvency["token"]) == ("VestedMarkets", "stock", "USDG")
    block = int(solvency["block"])
    assert solvency["balance"] == str(chain.read(token.call("balanceOf", settler.address), block))
    assert solvency["liabilities"] == str(chain.read(settler.call("liabilities"), block))
    assert int(solvency["balance"]) >= int(solvency["liabilities"])

    assert wallets.OPENER.address in body["bettors"]["excluded"]
    assert (body["bettors"]["distinct"], body["bettors"]["bets"], body["bettors"]["operatorBets"]) == (3, 4, 1)
    usdg = {name: int(value) for name, value in body["usdg"].items()}
    assert usdg["staked"] == (20 + 30 + 7 + 50 + 5) * USDG
    pools = [chain.read(settler.call("market", each)) for each in range(1, count + 1)]
    assert usdg["seeded"] == 2 * sum(view["seedPerLeg"] for view in pools)
    assert usdg["accepted"] == sum(view["pool"] for view in pools) - usdg["seeded"]
    assert usdg["feesTaken"] == usdg["feesSwept"] == int(body["feeSweeps"][0]["amount"]) > 0
    assert usdg["feesAccrued"] == chain.read(settler.call("feesAccrued")) == 0
    assert usdg["paidOut"] > usdg["paidToBettors"] > 20 * USDG

    drill = body["refundDrill"]
    assert (drill["status"], drill["reason"]) == ("refunded", "flat")
    assert drill["voidTxUrl"].startswith("http")
    assert [int(each["amount"]) for each in drill["refunds"]] == [10 * USDG, 10 * USDG, 7 * USDG]
    outcomes = {each["id"]: each["outcome"] for each in body["settled"]}
    assert outcomes[drill["id"]] == "FLAT"
    assert "UP" in outcomes.values()
    for each in body["settled"]:
        view = chain.read(settler.call("market", int(each["id"])))
        assert each["positions"] == view["positions"]
        assert chain.ask("eth_getTransactionReceipt", each["resolveTx"])["status"] == "0x1"
    counters = {each["label"]: each for each in body["counters"]}
    assert counters["Markets listed"]["value"] == str(count)
    assert all(each["source"].startswith("http") and each["sourceLabel"] for each in body["counters"])
    # Who sums what the calls say has the seeds in it, and the operator among the wallets, unless a note says so.
    assert int(counters["Accepted"]["value"]) + usdg["seeded"] == sum(view["pool"] for view in pools)
    for label in ("Staked", "Accepted"):
        assert counters[label]["note"] == "without seeds"
    assert "operator" in counters["Distinct bettors"]["note"]


async def test_health_of_a_working_venue(door: Door, service: StockService) -> None:
    _, untended = await door.get("/api/health")
    assert {"name": "keeper", "ok": False, "detail": "no keeper is running"} in untended["checks"]
    service.start("keeper")
    try:
        body = await door.until("/api/health", lambda b: b["ok"])
    finally:
        service.stop("keeper")
    hold(HealthBody, body)
    assert body["deployed"] is True
    assert [check["name"] for check in body["checks"]] == [
        "rpc-head",
        "settlement",
        "keeper",
        "keeper-eth",
        "keeper-token",
        "market-reads",
        "market-logs",
        "open-schedule",
        "delivery",
        "feeds",
        "relayer",
    ]
    response, _ = await door.get("/api/health")
    assert response.headers["Cache-Control"] == "no-store"


async def test_health_says_when_the_keeper_has_died(door: Door, service: StockService, database_url: str) -> None:
    def last_beat(how_long_ago: int) -> None:
        with psycopg.connect(conninfo(database_url)) as connection:
            connection.execute(
                "UPDATE daemon_heartbeat SET seen_at = now() - make_interval(secs => %s) WHERE daemon = 'keeper'",
                (how_long_ago,),
            )

    service.start("keeper")
    try:
        await door.until("/api/health", lambda b: b["ok"])
        service.kill("keeper")
        await asyncio.sleep(1.5)  # the last result is served for a second
        last_beat(22)
        response, body = await door.get("/api/health")
        (keeper,) = (each for each in body["checks"] if each["name"] == "keeper")
        assert (keeper["ok"], keeper["detail"][:22]) == (True, "last keeper heartbeat ")
        last_beat(35)
        await asyncio.sleep(1.5)
        response, body = await door.get("/api/health")
        (keeper,) = (each for each in body["checks"] if each["name"] == "keeper")
        assert (response.status, body["ok"]) == (503, False)
        assert (keeper["ok"], keeper["detail"][:22]) == (False, "last keeper heartbeat ")
    finally:
        if "keeper" in service.running:
            service.stop("keeper")


@pytest.mark.parametrize(
    ("path", "cache"),
    [
        ("/api/prices", "public, max-age=15, s-maxage=5, stale-while-revalidate=10"),
        ("/api/markets", "public, max-age=15, s-maxage=5, stale-while-revalidate=10"),
        ("/api/markets/1", "public, max-age=5, s-maxage=1, stale-while-revalidate=4"),
        (f"/api/positions?owner={BETTOR.address}", "private, max-age=5"),
        ("/api/proof", "public, max-age=60, s-maxage=20, stale-while-revalidate=40"),
    ],
)
async def test_caching_etags_and_compression(door: Door, path: str, cache: str) -> None:
    for _ in range(50):  # until nothing changed between the two requests
        plain, _ = await door.get(path, headers={"Accept-Encoding": "identity"})
        zipped, packed = await door.get(path, headers={"Accept-Encoding": "gzip"})
        held = {"If-None-Match": plain.headers["ETag"], "Accept-Encoding": "identity"}
        again, empty = await door.get(path, headers=held)
        if again.status == 304:
            break
    assert plain.headers["Content-Type"] == "application/json; charset=utf-8"
    assert plain.headers["Cache-Control"] == cache
    assert plain.headers["ETag"].startswith('"')  # strong
    assert plain.headers["Vary"] == "Accept-Encoding"
    assert (again.status, empty) == (304, b"")
    assert again.headers["ETag"] == plain.headers["ETag"]
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert zipped.headers["ETag"] != plain.headers["ETag"]
    assert plain.headers["X-Request-Id"] != zipped.headers["X-Request-Id"]
    head = await door.session.head(
        door.url + path, headers={"Accept-Encoding": "identity", "X-Forwarded-For": "10.9.9.9"}
    )
    assert (head.status, await head.read()) == (200, b"")
    assert int(head.headers["Content-Length"]) > 0
    del packed


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer wrong", f"bearer {CRON_SECRET}", f"Basic {CRON_SECRET}", CRON_SECRET, "Bearer ü"],
)
async def test_cron_refuses_callers_without_the_secret(door: Door, header: str | None) -> None:
    for job in ("open", "nothing"):  # which jobs exist is not revealed
        response, body = await door.get(f"/api/cron/{job}", headers={} if header is None else {"Authorization": header})
        assert (response.status, body["error"]) == (401, "unauthorized")
        assert CRON_SECRET not in json.dumps(body)


@pytest.mark.parametrize("job", ["open", "resolve", "deliver"])
async def test_cron_returns_the_report_of_the_keeper_that_ran_the_job(door: Door, database_url: str, job: str) -> None:
    report = {
        "job": job,
        "ok": True,
        "startedAt": "2026-11-21T12:00:00.123Z",
        "finishedAt": "2026-11-21T12:00:02.000Z",
        "actions": [{"kind": job, "target": "7", "status": "sent", "txHash": "0x" + "ab" * 32, "detail": None}],
        "skipped": [{"target": "8", "reason": "not due"}],
        "errors": [],
    }
    async with await connect(database_url) as connection:
        first = await jobs.request(connection, job)
        asking = [asyncio.create_task(door.get(f"/api/cron/{job}", headers=bearer())) for _ in range(3)]
        await asyncio.sleep(0.5)
        assert await jobs.request(connection, job) == first  # one run serves all who ask before it begins
        while not all(each.done() for each in asking):  # on a busy machine a request may come only now
            if (claimed := await jobs.claim(connection, "the test")) is not None:
                assert claimed.job == job
                await jobs.finish(connection, claimed.id, report)
            await asyncio.sleep(0.05)
        answers = await asyncio.gather(*asking)
    for response, body in answers:
        assert (response.status, response.headers["Cache-Control"]) == (200, "no-store")
        hold(CronReport, body)
        assert body == report | {"startedAt": 1_795_262_400, "finishedAt": 1_795_262_402}


async def test_an_unknown_job(door: Door) -> None:
    response, body = await door.get("/api/cron/everything", headers=bearer())
    assert (response.status, body["error"]) == (404, "not_found")


def bearer() -> dict[str, str]:
    return {"Authorization": f"Bearer {CRON_SECRET}"}


async def test_what_a_rebuild_makes_good_is_shown_by_a_running_api(
    service: StockService, door: Door, database_url: str
) -> None:
    """Rows a rebuild corrects keep their blocks: what the API holds of them is read again all the same."""
    _, listed = await door.get("/api/markets")
    paid = min((each for each in listed["markets"] if each["phase"] == "resolved"), key=lambda each: int(each["id"]))
    paths = ("/api/markets", f"/api/markets/{paid['id']}", f"/api/positions?owner={BETTOR.address}")

    async def shown() -> list[object]:
        _, markets = await door.get(paths[0])
        _, market = await door.get(paths[1])
        _, owner = await door.get(paths[2])
        return [
            next(each for each in markets["markets"] if each["id"] == paid["id"]),
            market["resolution"],
            market["positions"],
            [each for each in owner["positions"] if each["marketId"] == paid["id"]],
        ]

    right = await shown()
    service.stop("api")
    with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
        connection.execute(
            "UPDATE stock_market SET strike_answer = strike_answer + 1 WHERE market_id = %s", [paid["id"]]
        )
        connection.execute("UPDATE stock_position SET payout = payout + 1 WHERE market_id = %s", [paid["id"]])
    service.start("api")
    assert all(wrong != each for wrong, each in zip(await shown(), right, strict=True) if each is not right[1])

    rebuild = [sys.executable, "-m", "indexer", "rebuild", "--chain", "stock"]
    (await asyncio.to_thread(programs.run, rebuild, service.env)).check_returncode()

    async def is_right() -> bool:
        return bool(await shown() == right)

    await until(is_right, "the right figures", pause=0.2)
