"""The market list and quotes over many markets: pages, filters, statuses, fees, access and formats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import psycopg
import pytest

from api.web import figures
from api.web.sharing import agent_card
from core.db.engine import conninfo
from scripts._stack import wallets
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet

DEV = wallets.DEV
BUCKETS = [50_000_000 * 10**8, 100_000_000 * 10**8]
DEFAULT_PAGE = 50
DAY = 86_400
FEES = {"least": 175, "usual": 200, "dear": 500}
"""Set by the Safe before each is listed."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    """52 open markets, one closed, one settled, one that opens tomorrow, and one whose texts are unknown."""
    chain = base_service.chain
    now = chain.now
    chain.list("settled", target=10**8, closes_at=now + 300)
    chain.list("closed", closes_at=now + 310, ends_at=now + 9_000)
    chain.list("later", opens_at=now + DAY, closes_at=now + 2 * DAY)
    chain.settle("settled", 80_000_000 * 10**8)
    chain.list("elsewhere", known=False)
    for name, fee in FEES.items():
        chain.set_bounds(fee_bps=fee)
        chain.list(name)
    chain.set_bounds(fee_bps=200)
    chain.list("ladder", kind=1, bounds=BUCKETS)
    chain.list("updown", kind=2)
    for number in range(DEFAULT_PAGE + 2 - len(FEES) - 2):
        chain.list(f"filler-{number}")
    base_service.start("indexer", "relayer", "api")
    return base_service


async def listed(buyer: Buyer, **query: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        response, body = await buyer.get("/markets", **query)
        assert response.status == 200, body
        found += body["markets"]
        if body["nextCursor"] is None:
            return found
        query["cursor"] = body["nextCursor"]


async def test_a_page_holds_fifty_and_the_cursor_leads_on(buyer: Buyer) -> None:
    _, first = await buyer.get("/markets")
    assert first["count"] == len(first["markets"]) == DEFAULT_PAGE
    _, second = await buyer.get("/markets", cursor=first["nextCursor"])
    assert second["count"] == 2
    assert second["nextCursor"] is None
    ids = [each["id"] for each in (*first["markets"], *second["markets"])]
    assert len(set(ids)) == DEFAULT_PAGE + 2
    cursor = first["nextCursor"]
    assert "bnkr" not in cursor
    changed = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    for bad in (changed, cursor[1:], "1", "e30=", "%%%"):
        response, refused = await buyer.get("/markets", cursor=bad)
        assert (response.status, refused["error"]) == (400, "invalid_request"), bad


async def test_open_markets_unless_all_are_asked_for(buyer: Buyer, service: AgentService) -> None:
    unasked, open_now, every = (
        await listed(buyer),
        await listed(buyer, status="open"),
        await listed(buyer, status="all"),
    )
    assert unasked == open_now
    assert {each["status"] for each in open_now} == {"open"}
    names = service.chain.names
    named = "usual,settled"
    assert {names[each["id"]] for each in await listed(buyer, ids=named)} == {"usual"}
    assert {names[each["id"]] for each in await listed(buyer, ids=named, status="all")} == {"usual", "settled"}
    statuses = {names[each["id"]]: each["status"] for each in every}
    assert statuses.keys() - {names[each["id"]] for each in open_now} == {"settled", "closed", "later"}
    assert (statuses["settled"], statuses["closed"]) == ("resolved", "closed")
    assert {each["chainId"] for each in every} == {"base"}
    async with buyer.session.get(f"{service.url}/openapi/agent.json") as response:
        schema = (await response.json())["components"]["schemas"]["AgentMarketRef"]["properties"]["status"]
    assert schema["enum"] == ["closed", "open", "resolved", "void"]


async def test_odds_and_stats_move_with_a_bet(buyer: Buyer) -> None:
    def of(markets: list[dict[str, Any]]) -> dict[str, Any]:
        return next(each for each in markets if each["id"] == buyer.service.chain.ids["usual"])

    before = of(await listed(buyer))
    assert (before["odds"]["yesPriceCents"], before["totalBets"], before["volumeUsd"]) == (50, 0, 0)
    response, paid = await buyer.buy(bet("usual", DEV[0], "yes", 100 / 10), DEV[0])
    assert response.status == 200, paid
    after = of(await listed(buyer))
    assert after["odds"]["yesPriceCents"] > 50
    # Prices are shares of one pool: what one side gains the other loses.
    assert after["odds"]["yesPriceCents"] + after["odds"]["noPriceCents"] == pytest.approx(100, abs=0.0002)
    assert (after["totalBets"], after["volumeUsd"], after["volume24hUsd"]) == (1, 10, 10)
    _, one = await buyer.get("/markets/usual")
    assert one["market"]["odds"] == after["odds"]
    assert one["market"]["stats"] == {
        "totalBets": 1,
        "totalPoolUsd": 9.8,
        "yesPoolUsd": 9.8,
        "noPoolUsd": 0,
        "feeUsd": 0.2,
    }


async def test_every_market_has_a_fee_of_its_own(buyer: Buyer) -> None:
    shown = {buyer.service.chain.names[each["id"]]: each["feeBps"] for each in await listed(buyer)}
    for name, fee in FEES.items():
        assert shown[name] == fee
        _, body = await buyer.get("/quote", marketId=name, sizeUsd=1)
        assert (body["quote"]["feeBps"], body["quote"]["feeUsd"]) == (fee, fee / 10_000)
    assert all(isinstance(fee, int) for fee in shown.values())


async def test_a_market_without_yes_and_no_needs_a_side(buyer: Buyer) -> None:
    for name in ("ladder", "updown"):
        response, refused = await buyer.get("/quote", marketId=name)
        assert (response.status, refused["error"]) == (422, "invalid_side")


async def test_only_a_lock_is_stored(buyer: Buyer, database_url: str) -> None:
    def stored(quote_id: str) -> int:
        with psycopg.connect(conninfo(database_url)) as connection:
            row = connection.execute("SELECT count(*) FROM agent_quote WHERE quote_id = %s", (quote_id,)).fetchone()
        assert row is not None
        return int(row[0])

    _, simple = await buyer.get("/quote", marketId="least")
    assert (simple["quote"]["side"], simple["quote"]["sizeUsd"], simple["quote"]["tier"]) == ("yes", 1, "simple")
    assert simple["quote"]["quoteId"]
    assert stored(simple["quote"]["quoteId"]) == 0
    _, locked = await buyer.get("/quote", marketId="least", sizeUsd="10.000001")
    assert locked["quote"]["tier"] == "locked"
    assert stored(locked["quote"]["quoteId"]) == 1


async def test_a_result_is_found_by_id_or_key_in_the_whole_catalogue(buyer: Buyer, service: AgentService) -> None:
    chain = service.chain
    for name in (chain.ids["usual"], "0x" + chain.key("usual").hex()):
        _, body = await buyer.get("/result", marketId=name)
        assert (body["result"]["marketId"], body["result"]["status"]) == (chain.ids["usual"], "pending")
    _, body = await buyer.get("/result", marketId="settled")
    assert (body["result"]["status"], body["result"]["resolvedOutcome"]) == ("resolved", "yes")


async def test_reads_ask_for_no_credentials(buyer: Buyer, service: AgentService) -> None:
    async with buyer.session.get(f"{service.url}/openapi/agent.json") as response:
        paths = (await response.json())["paths"]
    assert [path for path in paths if not path.startswith("/api/agent/v1/")] == ["/api/agent/mcp.json"]
    wallet = DEV[0].address
    assert wallet != wallet.lower()
    known = {
        "/quote": "?marketId=usual",
        "/result": "?marketId=usual",
        "/positions": f"?wallet={wallet}",
        "/sentiment": "?token=BNKR",
        "/discover": "?q=bnkr",
        "/resolved": f"?wallet={wallet}",
        "/events/replay": f"?wallet={wallet}",
    }
    asked = 0
    for path, methods in paths.items():
        short = path.removeprefix("/api/agent/v1")
        # A stream; and what needs a trade or a registration first.
        if "get" not in methods or short in ("/events", "/proof/{tradeId}", "/webhooks/{id}", "/api/agent/mcp.json"):
            continue
        real = buyer.named(short.replace("{id}", "usual").replace("{address}", wallet) + known.get(short, ""))
        async with buyer.session.get(service.api + real) as response:
            body = await response.json()
            assert response.status == 200, (real, body)
            assert response.content_type == "application/json"
        for name, value in _leaves(body):
            if name.endswith("At") or name == "asOf":
                assert value is None or TIME.fullmatch(value), (real, name, value)
            if name in ("wallet", "walletAddress"):
                assert value == wallet.lower(), (real, name)
        asked += 1
    assert asked >= 10


def _leaves(body: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(body, dict):
        for key, value in body.items():
            yield from _leaves(value, key)
    elif isinstance(body, list):
        for value in body:
            yield from _leaves(value, name)
    else:
        yield name, body


async def test_a_browser_may_call_with_the_headers_of_the_official_clients(buyer: Buyer, service: AgentService) -> None:
    asked = {
        "Origin": "https://example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "access-control-expose-headers,content-type,x-payment",
    }
    async with buyer.session.options(f"{service.api}/trade", headers=asked) as response:
        assert response.status == 204
        allowed = {each.strip().lower() for each in response.headers["Access-Control-Allow-Headers"].split(",")}
        assert set(asked["Access-Control-Request-Headers"].split(",")) <= allowed
        assert "POST" in response.headers["Access-Control-Allow-Methods"]
    async with buyer.session.get(f"{service.api}/health", headers={"Origin": "https://example.org"}) as response:
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert "X-Payment-Response" in response.headers["Access-Control-Expose-Headers"]


@pytest.mark.parametrize(
    ("path", "cache"),
    [
        ("/markets", "public, no-cache"),
        ("/markets?status=all&limit=3", "public, no-cache"),
        ("/markets/usual", "public, no-cache"),
        ("/markets/usual/research", "public, no-cache"),
        ("/result?marketId=usual", "public, no-cache"),
        ("/stats", "public, no-cache"),
        (f"/positions?wallet={DEV[0].address}", "private, no-cache"),
    ],
)
async def test_what_has_not_changed_costs_no_body(buyer: Buyer, service: AgentService, path: str, cache: str) -> None:
    async def ask(**headers: str) -> tuple[int, bytes, Mapping[str, str]]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with buyer.session.get(service.api + buyer.named(path), headers=named) as response:
            return response.status, await response.read(), response.headers

    while True:
        _, body, first = await ask()
        tag = first["ETag"]
        same, plain, other = (
            await ask(If_None_Match=tag),
            await ask(Accept_Encoding="identity"),
            await ask(If_None_Match='"another"'),
        )
        if (await ask())[2]["ETag"] == tag:  # no block came between these
            break
    assert first["Cache-Control"] == cache
    assert tag.startswith('"')
    assert (same[0], same[1], same[2]["ETag"]) == (304, b"", tag)
    assert plain[1] == body
    assert plain[2]["ETag"] != tag or "Content-Encoding" not in first
    assert (other[0], other[1]) == (200, body)


async def test_a_change_is_seen_at_once_through_the_etag(buyer: Buyer, service: AgentService) -> None:
    reads = ("/markets?status=all&limit=200", "/markets/least", "/markets/least/research", "/positions?wallet=")
    paths = [buyer.named(each) + (DEV[2].address if each.endswith("=") else "") for each in reads]
    held = {}
    for path in paths:
        async with buyer.session.get(service.api + path) as response:
            held[path] = response.headers["ETag"]
    response, paid = await buyer.buy(bet("least", DEV[2], "yes", 3), DEV[2])
    assert response.status == 200, paid
    for path in paths:
        async with buyer.session.get(service.api + path, headers={"If-None-Match": held[path]}) as again:
            assert again.status == 200, path
    _, book = await buyer.get("/positions", wallet=DEV[2].address)
    assert [each["tradeId"] for each in book["positions"]] == [paid["receipt"]["tradeId"]]


@pytest.mark.parametrize("path", ["/quote?marketId=usual", "/health", f"/wallet/{DEV[0].address}/readiness"])
async def test_answers_true_for_one_moment_are_not_cached(buyer: Buyer, service: AgentService, path: str) -> None:
    async with buyer.session.get(service.api + buyer.named(path)) as response:
        assert (response.status, response.headers["Cache-Control"]) == (200, "no-store")
        assert "ETag" not in response.headers


async def test_a_market_that_is_not_open_yet_says_when_it_opens(buyer: Buyer, service: AgentService) -> None:
    _, body = await buyer.get("/markets/later")
    market = body["market"]
    opens = int(datetime.fromisoformat(market["opensAt"]).timestamp())
    assert market["status"] == "closed"
    assert 0 < opens - service.chain.now <= DAY
    assert (await buyer.get("/markets/usual"))[1]["market"]["opensAt"] is None

    async def page(path: str) -> str:
        async with buyer.session.get(f"{service.url}{path}") as response:
            assert response.status == 200
            return await response.text()

    shown = await page(f"/markets/{market['slug']}")
    state = shown.partition('id="state"')[2].partition("</div>")[0]
    bet_box = shown.partition('id="bet-h"')[2].partition("</section>")[0]
    clock = figures.clock(opens)
    for part in (state, bet_box):
        assert f"opens {clock}" in part
    for wrong in ("being settled", "betting ended", "Betting on this market has ended"):
        assert wrong not in shown
    home = await page("/")
    soon = home.partition("Opening later")[2].partition("</table>")[0]
    assert f"opens {clock}" in soon
    assert market["slug"] in soon
    assert market["slug"] not in home.partition("Recently closed")[2].partition("</table>")[0]
    assert agent_card(market, {}).foot == f"Betting opens {figures.moment(opens)}"
