"""One origin for everything: each surface at the same door, errors in its own words, and what holds for all."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from PIL import Image

from api.agent.errors import CATALOGUE
from scripts._local.anvil import ask
from scripts._stack import wallets
from tests.support.agent_chain import AgentChain
from tests.support.genesis import Genesis, RunningChain
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService, stock_service

AGENT, CUP = "/api/agent/v1", "/api/cup/v1"
LARGE = b'{"walletAddress": "' + b"0" * 200_000 + b'"}'
BETTOR = wallets.DEV[1].address


@pytest.fixture(scope="module")
def service(
    local_genesis: Genesis,
    stock_chain: RunningChain,
    base_chain: RunningChain,
    database_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[StockService]:
    stock = StockChain.on(stock_chain.url, stock_chain.deployment)
    stock.push(FLAT_PRICE)
    stock.enter(wallets.DEV[1], stock.open_market(strike_in=86_400, lasts=86_400), 0, 5 * USDG)
    AgentChain.on(base_chain.url, base_chain.deployment).list("on-the-origin")
    now = datetime.now(UTC)
    env = {
        "VPM_BASE_RPC_URLS": base_chain.url,
        "VPM_BASE_POLL_INTERVAL_MS": "100",
        "VPM_CUP_OPENS_AT": (now - timedelta(days=1)).isoformat(),
        "VPM_CUP_CLOSES_AT": (now + timedelta(days=1)).isoformat(),
        "VPM_ATTESTATION_KEY": wallets.ATTESTATION.private_key,
    }
    folder = tmp_path_factory.mktemp("origin")
    with stock_service(stock, database_url, local_genesis.deployments, folder, **env) as service:
        service.start("indexer", "api")
        yield service


@pytest.fixture
async def door(service: StockService) -> AsyncIterator[Door]:
    async with aiohttp.ClientSession() as session:
        door = Door(session, service.url)
        await door.until("/api/markets/1", lambda b: len(b["positions"]) == 3)
        await door.until("/api/proof", bool)  # it is gathered after the markets
        await door.until(f"{AGENT}/markets", lambda b: b["count"] == 1)
        yield door
    await asyncio.sleep(0.1)  # for connections that were cut in the middle of a body to be gone


async def test_every_surface_answers_at_one_origin(door: Door) -> None:
    for path, kind in {
        "/api/prices": "application/json",
        "/api/markets": "application/json",
        f"{AGENT}/markets": "application/json",
        f"{CUP}/markets": "application/json",
        "/openapi.json": "application/json",
        "/docs": "text/html",
        "/robots.txt": "text/plain",
        "/sitemap.xml": "application/xml",
        "/manifest.webmanifest": "application/manifest+json",
        "/share.png": "image/png",
        "/m/1/share.png": "image/png",
        "/icon-512.png": "image/png",
        "/agents.txt": "text/plain",
        "/errors.txt": "text/plain",
        "/llms.txt": "text/plain",
        "/llms-full.txt": "text/plain",
        "/.well-known/x402": "application/json",
        "/": "text/html",
    }.items():
        response, _ = await door.get(path)
        assert (response.status, response.content_type) == (200, kind), path
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    accept = {"Accept": "application/json, text/event-stream"}
    async with door.session.post(f"{door.url}/api/cup/mcp", json=hello, headers=accept) as response:
        assert response.status == 200
        assert '"serverInfo"' in await response.text()


async def test_the_origin_names_who_signs_for_it(door: Door) -> None:
    """As `did:web` defines, so that the reader of a signed offer or receipt can check its signer against the origin."""
    response, named = await door.get("/.well-known/did.json")
    assert (response.status, response.content_type) == (200, "application/json")
    name = "did:web:" + urlsplit((await door.get("/.well-known/x402"))[1]["resources"][0]).netloc.replace(":", "%3A")
    (method,) = named["verificationMethod"]
    assert (named["id"], named["assertionMethod"]) == (name, [method["id"]])
    assert (method["controller"], method["id"]) == (name, f"{name}#attestation")
    _, health = await door.get(f"{AGENT}/health")
    assert method["blockchainAccountId"] == f"eip155:8453:{health['health']['attester']}"


async def test_a_page_can_be_found_and_shared(door: Door) -> None:
    _, robots = await door.get("/robots.txt")
    listed = re.search(r"^Sitemap: (.+)$", robots.decode(), re.MULTILINE)
    assert listed is not None
    _, sitemap = await door.get("/" + listed[1].split("/", 3)[3])
    found = ["/" + each.split("/", 3)[3] for each in re.findall(r"<loc>([^<]+)</loc>", sitemap.decode())]
    assert {"/", "/how", "/m/1"} < set(found)
    assert any(each.startswith("/markets/") for each in found)
    for path in found:
        response, page = await door.get(path)
        assert response.status == 200, path
        (picture,) = re.findall(r'property="og:image" content="([^"]+)"', page.decode())
        response, drawn = await door.get("/" + picture.split("/", 3)[3])
        assert response.status == 200, picture
        with Image.open(io.BytesIO(drawn)) as image:
            assert (image.format, image.size) == ("PNG", (1200, 630)), picture
        assert len(drawn) < 60_000
    _, manifest = await door.get("/manifest.webmanifest")
    for icon in manifest["icons"]:
        _, drawn = await door.get(icon["src"])
        with Image.open(io.BytesIO(drawn)) as image:
            assert f"{image.width}x{image.height}" == icon["sizes"]
    response, _ = await door.get("/m/99/share.png")
    assert response.status == 404


async def test_documents_for_machines_lead_to_each_other_and_name_every_code(door: Door) -> None:
    texts = {}
    for path in ("/llms.txt", "/llms-full.txt", "/errors.txt", "/agents.txt"):
        _, raw = await door.get(path)
        texts[path] = raw.decode()
    for link in re.findall(r"\]\((http[^)]+)\)", texts["/llms.txt"]):
        path = "/" + link.split("/", 3)[3]
        response, _ = await door.get(path)
        assert response.status == 200, link
    named = set(texts["/errors.txt"].splitlines())
    assert {*CATALOGUE, "region_blocked", "round_closed", "unavailable"} <= named
    assert "  next:  Pick another market from GET /markets." in named
    assert texts["/agents.txt"] in texts["/llms-full.txt"]
    assert texts["/errors.txt"] in texts["/llms-full.txt"]
    for word in ("webhook.verify", "fromSeq", "/proof/", "/positions?wallet=", "Service-Signature"):
        assert word in texts["/agents.txt"]
    response, refused = await door.get(f"{AGENT}/markets/none")
    assert response.status == 404
    assert refused["docsUrl"].endswith("/errors.txt")
    assert refused["hint"].endswith(refused["docsUrl"])


async def test_metrics_are_on_a_port_of_their_own(service: StockService, door: Door) -> None:
    await door.get("/api/markets")
    assert 'vpm_http_requests_total{operation="get_api_markets",status="200"}' in service.metrics("api")
    address = json.loads((service.folder / "api.ready").read_text())["metrics"]
    assert not address.startswith(service.url)
    response, _ = await door.get("/metrics")
    assert response.status == 404


async def refused(door: Door, method: str, path: str, **how: Any) -> tuple[int, str, aiohttp.ClientResponse]:
    how["headers"] = {"X-Forwarded-For": "10.8.0.1", **how.get("headers", {})}
    async with door.session.request(method, door.url + path, **how) as response:
        body = await response.json()
        assert response.content_type == "application/json"
        assert re.fullmatch(r"[0-9a-f]{24,}", response.headers["X-Request-Id"])
        assert response.headers["Cache-Control"] == "no-store"
        assert body["message"]
        if path.startswith(AGENT):
            assert body["requestId"] == response.headers["X-Request-Id"]
            assert body["hint"]
        return response.status, body["error"], response


POSTS = (
    f"{AGENT}/trade",
    f"{AGENT}/webhooks",
    f"{CUP}/wallet",
    f"{CUP}/trade",
    f"{CUP}/roulette/bet",
    "/api/relay/enter",
)


@pytest.mark.parametrize("path", ["/api", "/api/nothing", f"{AGENT}/nothing", f"{CUP}/nothing", "/api/relay/nothing"])
async def test_unknown_paths_are_json(door: Door, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        status, code, _ = await refused(door, method, path)
        assert (status, code) == (404, "not_found")


@pytest.mark.parametrize("path", POSTS)
async def test_wrong_methods_and_types_are_json(door: Door, path: str) -> None:
    status, _, response = await refused(door, "PATCH", path)
    assert status == 405
    assert "POST" in response.headers["Allow"]
    status, _, _ = await refused(door, "POST", path, data=b"walletAddress=1", headers={"Content-Type": "text/plain"})
    assert status == 415


@pytest.mark.parametrize("path", POSTS)
async def test_bodies_have_a_size_limit(door: Door, path: str) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield LARGE

    for data in (LARGE, endless()):
        status, _, _ = await refused(door, "POST", path, data=data, headers={"Content-Type": "application/json"})
        assert status == 413


async def test_the_mcp_server_has_a_size_limit_too(door: Door) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with door.session.post(f"{door.url}/api/cup/mcp", data=io.BytesIO(LARGE * 10), headers=headers) as response:
        assert response.status == 413


@pytest.mark.parametrize("path", POSTS)
async def test_no_error_reveals_internals(service: StockService, door: Door, path: str) -> None:
    secrets = [
        wallets.ATTESTATION.private_key[2:],
        *(each.private_key[2:] for each in wallets.RELAY_LANES),
        service.env["CRON_SECRET"],
        service.env["DATABASE_URL"],
        service.env["VPM_BASE_RPC_URLS"],
        service.chain.url,
    ]
    words = ("Traceback", 'File "', ".py", "sqlalchemy", "psycopg", "aiohttp", "pydantic", "anvil")
    json_type = {"Content-Type": "application/json", "X-Forwarded-For": "10.8.0.2"}
    bodies = [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"a":1}',
        b"\xff\xfe",
        b'"' + b"\\u0000" * 9 + b'"',
        b'{"amount": 1e400}',
        b"[" * 5000,
    ]
    for number, body in enumerate(bodies):
        headers = {**json_type, "X-Forwarded-For": f"10.8.{number}.2"}
        async with door.session.post(door.url + path, data=body, headers=headers) as response:
            text = await response.text()
            assert 400 <= response.status < 500, (body, text)
            found = [each for each in (*secrets, *words) if each in text or each in str(response.headers)]
            assert not found, text


async def test_money_on_the_stock_surface_is_whole_units_in_text(door: Door) -> None:
    """No fraction in a body but percentages, and no number but times, counts and basis points."""
    numbers: set[str] = set()

    def walk(value: Any, name: str) -> None:
        assert not isinstance(value, float) or name.endswith("Pct"), name
        if isinstance(value, dict):
            for key, each in value.items():
                walk(each, key)
        elif isinstance(value, list):
            for each in value:
                walk(each, name)
        elif isinstance(value, int) and not isinstance(value, bool):
            numbers.add(name)

    await door.until("/api/proof", lambda b: b["counters"] and b["solvency"])
    for path in ("/api/prices", "/api/markets", "/api/markets/1", f"/api/positions?owner={BETTOR}", "/api/proof"):
        _, body = await door.get(path)
        walk(body, path)
    times = "readAt updatedAt strikeTime finalTime at voidableAt openedAt timestamp enteredAt"
    counts = "open bets distinct operatorBets owners threshold positions decimals deviationBps settledMarkets"
    spans = "bps feeBps maxStrikeAge maxFinalAge heartbeatSeconds"
    assert numbers <= {*times.split(), *counts.split(), *spans.split()}


async def test_an_address_is_taken_in_any_case(door: Door) -> None:
    lower = BETTOR.lower()
    for spelling in (BETTOR, lower, "0x" + lower[2:].upper()):
        _, body = await door.get(f"/api/positions?owner={spelling}")
        assert body["owner"] == BETTOR  # checksummed here
        _, body = await door.get(f"{AGENT}/positions?wallet={spelling}")
        assert body["wallet"] == lower
        _, body = await door.get(f"{CUP}/wallet/{spelling}")
        assert body["walletAddress"] == lower


@pytest.mark.thorough
async def test_the_documents_and_the_page_are_whole(door: Door) -> None:
    _, whole = await door.get("/openapi.json")
    response, page = await door.get("/docs")
    overview = page.decode()
    groups = dict.fromkeys(re.findall(r'href="(/docs/[^"]+)"', overview))
    texts = [(await door.get(path))[1].decode() for path in groups]
    assert len(texts) > 3
    text = "".join(texts)
    ids = set(re.findall(r'id="([^"]+)"', text))
    for name in ("stock", "agent", "cup"):
        _, one = await door.get(f"/openapi/{name}.json")
        assert name in {each["name"] for each in whole["tags"]}
        assert f'id="{name}"' in overview
        for path, methods in one["paths"].items():
            assert set(whole["paths"][path]) == set(methods)
            for method, operation in methods.items():
                assert whole["paths"][path][method]["tags"][0] == name
                assert operation["operationId"] in ids, (method, path)
                assert f"{method.upper()} </span>{path}" in text
                for parameter in operation.get("parameters", ()):
                    assert f"<code>{parameter['name']}</code>" in text
    schemas = whole["components"]["schemas"]
    # The fields of queries, paths and headers are listed at their operation.
    bodies = {name for name in schemas if not name.endswith(("Query", "Path", "Headers"))}
    assert {f"schema-{name}" for name in bodies} <= ids
    # A body is named by its surface, not its file, and has the same name in every document.
    assert {"StockMarket", "CupMarket"} <= set(schemas)
    _, stock = await door.get("/openapi/stock.json")
    assert set(stock["components"]["schemas"]) <= set(schemas)
    # Every link leads somewhere on its page or on this origin, and nothing is loaded from anywhere else.
    for shown in (overview, *texts):
        here = set(re.findall(r'id="([^"]+)"', shown))
        links = re.findall(r'(?:href|src)="([^"]+)"', shown)
        assert {each[1:] for each in links if each.startswith("#")} <= here
        assert [each for each in links if not each.startswith(("#", "/"))] == []
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    # What is signed for a bet, and the nonce.
    for needed in (
        "ReceiveWithAuthorization",
        "keccak256(abi.encode(keccak256(",
        "validBefore",
        "verifyingContract",
    ):
        assert needed in text, needed


async def test_answers_from_a_chain_say_how_fresh_they_are(
    service: StockService, base_chain: RunningChain, door: Door
) -> None:
    started = datetime.now(UTC)
    for path in ("/api/prices", "/api/markets", "/api/markets/1", f"/api/positions?owner={BETTOR}", "/api/proof"):
        response, body = await door.get(path)
        assert response.status == 200, body
        assert body["readAt"] <= (datetime.now(UTC)).timestamp() + 1, path
        assert body.get("stale", body.get("status")) in (False, "live", "ok"), path
    wallet = BETTOR.lower()
    _, listed = await door.get(f"{AGENT}/markets")
    market = listed["markets"][0]["id"]
    for path in (
        "/markets",
        f"/markets/{market}",
        f"/markets/{market}/research",
        f"/quote?marketId={market}&sizeUsd=5",
        f"/positions?wallet={wallet}",
        f"/result?marketId={market}",
        "/discover",
        "/sentiment?token=BNKR",
        "/stats",
    ):
        response, body = await door.get(AGENT + path)
        assert response.status == 200, body
        head = int(ask(base_chain.url, "eth_blockNumber"), 16)
        fresh = body["meta"]["freshness"]
        assert 0 < fresh["block"] <= head, path
        assert fresh["lagBlocks"] >= 0, path
        assert datetime.fromisoformat(fresh["blockAt"]) <= started + timedelta(days=1), path
