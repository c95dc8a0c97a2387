"""Every field of every endpoint in docs/spec, its type and whether it may be null, on answers of a running service.

Both chains, all four daemons: real bets, markets that were won and that are void, payouts, events and a tournament.
Each field must have had a value in some answer: a type that only ever met null was not looked at.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from core.db.engine import connect
from scripts._stack import wallets
from tests.support.agent_chain import DAY, AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet, header, sign
from tests.support.cup_rig import Cup, Signer, now
from tests.support.event_reader import messages
from tests.support.genesis import Genesis, RunningChain, chain
from tests.support.service import Door, followed
from tests.support.specification import DOCUMENTS, Field, Fields, Held, body, listed, resource, rows, sections, table
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import CRON_SECRET
from tests.support.webhook_receiver import active, receiver, registered
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)

DEV = wallets.DEV
CAP = 100_000_000 * 10**8
RICH, OTHER, ALONE = DEV[1], DEV[2], DEV[3]

# Fields that have no value in any of these answers.
WITHOUT_VALUE = (
    ".advisory",  # always null, says the text
    ".headline",  # no listing has one
    ".currentPriceUsd",  # the feeds are of market caps
    ".ladder.outcomes[].startAt",  # a range has no times
    ".ladder.outcomes[].endAt",
)


# ---------------------------------------------------------------- what is written


def _stock() -> dict[str, Fields]:
    market, position = table(resource("stock", "Market (as listed)")), table(resource("stock", "Position"))
    market["live"] = market["strike"]
    extras, *bullets = re.split(r"\n- `(?:\w+)`: null until ", resource("stock", "Market detail extras"))
    detail = {**listed(extras), "market": Field("object", fields=market), "headroom": market["headroom"]}
    for name, bullet in zip(
        re.findall(r"\n- `(\w+)`: null", resource("stock", "Market detail extras")), bullets, strict=True
    ):
        detail[name] = Field("object", null=True, fields=listed(bullet.partition("then ")[2].rstrip(" .\n")))
    held = sections("stock", "Endpoints")["GET /api/positions?owner="]
    owned = {**position, **listed(re.findall(r"a position plus (.*?\))\.", held)[0])}
    checks = re.findall(r"each check has (.*?) \(", sections("stock", "Endpoints")["GET /api/health"])[0]
    reads = {"readAt": Field("number"), "stale": Field("boolean")}  # "chain reads carry `readAt` and `stale`"
    return {
        "GET /api/prices": {
            **listed(body("stock", "GET /api/prices")),
            "readings": _many(listed(resource("stock", "Price"))),
        },
        "GET /api/markets": {**listed(body("stock", "GET /api/markets")), "markets": _many(market), **reads},
        "GET /api/markets/[id]": {**detail, "positions": _many(position), **reads},
        "GET /api/positions?owner=": {
            **listed(body("stock", "GET /api/positions?owner=")),
            "positions": _many(owned),
            "totals": Field("object", fields=listed(resource("stock", "Owner totals"))),
            **reads,
        },
        "GET /api/proof": {**listed(resource("stock", "Proof page").partition(". Inner fields")[0]), **reads},
        "GET /api/health": {
            **listed(body("stock", "GET /api/health")),
            "checks": _many(listed(checks.replace(", and", ","))),
        },
        "POST /api/relay/enter": listed(body("stock", "POST /api/relay/enter")),
        "error": {"error": Field("string")},
    }


def _agent() -> dict[str, Fields]:
    meta, reference = table(resource("agent", "meta")), table(resource("agent", "Market reference"))
    quote, event = table(resource("agent", "Quote")), table(resource("agent", "Event"))
    held, summary = resource("agent", "Position").split("\nSummary: ")
    position = listed(held.removeprefix("\n").removeprefix("Position: ").partition(". Numeric fields")[0])
    for name, one in position.items():  # "numeric fields are numbers, the rest strings"
        kind = "number" if re.search("Usd$|Cents$|^shares$", name) else "string"
        position[name] = one if one.type else replace(one, type=kind)
    research = table(resource("agent", "Research"))
    research["market"] = Field("object", fields=reference)
    for name in ("stats", "ladder", "tokenSnapshot"):
        research[name] = quote[name]
    proof = listed(resource("agent", "Proof"))
    proof["market"] = Field("object", fields={name: reference[name] for name in proof["market"].fields})
    match = listed(resource("agent", "Discover match"))
    match["market"] = Field("object", fields=reference)
    intel = listed(resource("agent", "Sentiment intel").partition(". Fields inside")[0])
    begin, step = resource("agent", "Getting-started").split(". Each step: ")
    started = {**listed(begin.strip().removeprefix("meta plus ")), "steps": _many(listed(step))}
    challenge = re.findall("402 challenge body: (.*)", sections("agent", "Endpoints")["POST /trade"])[0]
    named = {
        "meta": Field("object", fields=meta),
        "market": Field("object", fields=reference),
        "markets": _many(reference),
        "research": Field("object", fields=research),
        "matches": _many(match),
        "intel": Field("object", fields=intel),
        "quote": Field("object", fields=quote),
        "receipt": Field("object", fields=table(resource("agent", "Trade receipt"))),
        "positions": _many(position),
        "summary": Field("object", fields=listed(summary)),
        "result": Field("object", fields=listed(resource("agent", "Result").partition(". An unresolved")[0])),
        "readiness": Field("object", fields=listed(resource("agent", "Wallet readiness"))),
        "stats": Field("object", fields=listed(resource("agent", "Platform stats"))),
        "health": Field("object", fields=listed(resource("agent", "Health"))),
        "webhook": Field("object", fields=listed(resource("agent", "Webhook registration"))),
        "event": Field("object", fields=event),
        "events": _many(event),
    }
    written = {}
    for endpoint in sections("agent", "Endpoints"):
        if endpoint == "GET /events (SSE)":
            written[endpoint] = event
        elif endpoint == "GET /proof/{tradeId}":
            written[endpoint] = {"meta": named["meta"], **proof}
        elif endpoint == "GET /getting-started":
            written[endpoint] = {"meta": named["meta"], **started}
        else:
            written[endpoint] = {name: named.get(name, one) for name, one in listed(body("agent", endpoint)).items()}
    return {**written, "error": table(resource("agent", "Error body")), "challenge": listed(challenge)}


def _cup() -> dict[str, Fields]:
    meta = {"meta": Field("object", fields=table(resource("cup", "meta")))}
    market = table(resource("cup", "Market"))
    quote = {**listed(resource("cup", "Quote")), "outcomes": market["outcomes"]}
    spin = table(resource("cup", "Roulette round").partition("\nOutcome: ")[0])
    outcome = listed(re.findall(r"\nOutcome: (.*?\))\. A `wallet`", resource("cup", "Roulette round"))[0])
    spins = spin["markets"]
    spin["markets"] = replace(spins, fields={**spins.fields, "outcomes": _many(outcome)})
    trade = Field("object", fields=listed(resource("cup", "Trade receipt")))
    placed = Field("object", fields=listed(resource("cup", "Roulette bet receipt")))
    enrolled = resource("cup", "Enrollment").partition("Response includes ")[2].partition(" and further keys")[0]
    return {
        "POST /wallet": {**listed(body("cup", "POST /wallet")), **meta},
        "GET /wallet/:address": {**meta, **listed(resource("cup", "Wallet summary").partition(". Values of")[0])},
        "GET /markets?limit=": {**listed(body("cup", "GET /markets?limit=")), "markets": _many(market), **meta},
        "GET /markets/:slug/quote?side=&sizePaper=": {**meta, **quote},
        "POST /trade": {**meta, "receipt": trade},
        "GET /leaderboard?week=&limit=&wallet=": {**meta, **listed(resource("cup", "Leaderboard"))},
        "GET /getting-started": meta,
        "GET /roulette?wallet=": {**meta, **spin},
        "POST /roulette/bet": {**meta, "receipt": placed},
        "POST /agent/enroll": {**meta, **listed(enrolled)},
        "error": {**meta, "error": Field("string")},
    }


def _many(fields: Fields) -> Field:
    return Field("array", many=True, fields=fields)


SHAPES = {"stock": _stock(), "agent": _agent(), "cup": _cup()}


def test_every_typed_name_of_the_resources_is_read() -> None:
    """Each name that the text gives a type is a field of some shape: nothing was passed over in reading."""

    def names(fields: Fields) -> Iterator[str]:
        for name, one in fields.items():
            yield name
            yield from names(one.fields)

    for surface, shapes in SHAPES.items():
        read = {name for fields in shapes.values() for name in names(fields)}
        for title, text in sections(surface, "Resources and their fields").items():
            if "request" in title or title == "Enrollment":
                continue
            typed = set(re.findall(r"\b([a-z]\w*)`?(?:\[\])? (?:string|number|integer|boolean)\b", text))
            in_tables = {name.strip() for row in rows(text)[1:] for name in row[0].split(",")}
            assert typed | in_tables <= read | {"each", "and", "decimal", "address"}, (surface, title)


# ---------------------------------------------------------------- what is answered


@dataclass
class Answers:
    """The answers, each with its document and endpoint, and the tools that the tournament's manifest names."""

    given: list[tuple[str, str, Any]] = field(default_factory=list)
    tools: dict[str, Any] = field(default_factory=dict)

    def add(self, surface: str, endpoint: str, answer: Any) -> Any:
        self.given.append((surface, endpoint, answer))
        return answer


@pytest.fixture(scope="module")
def answers(
    local_genesis: Genesis, stock_chain: RunningChain, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Answers]:
    folder: Path = tmp_path_factory.mktemp("specifications")
    deployments = shutil.copytree(local_genesis.deployments, folder / "deployments")
    for name in ("base", "stock"):  # with an explorer, whose addresses answers name
        file = deployments / f"{name}.json"
        file.write_text(file.read_text().replace('"explorerUrl": null', '"explorerUrl": "https://explorer.example"'))
    stock = StockChain.on(stock_chain.url, stock_chain.deployment)
    lanes = ",".join(
        f"{name}:relay+keeper={each.private_key}" for each in wallets.RELAY_LANES[:2] for name in ("base", "stock")
    )
    env = {
        **followed("STOCK", stock.url),
        "CRON_SECRET": CRON_SECRET,
        "VPM_RELAYER_KEYS": ",".join(
            [lanes, f"base:credit={wallets.CREDITOR.private_key}", f"stock:opener={wallets.OPENER.private_key}"]
        ),
        "VPM_BASE_FINALITY_BLOCKS": "2",
        "VPM_ALLOW_PRIVATE_WEBHOOKS": "1",
        "VPM_AGENT_STREAM_SECONDS": "1",
        "VPM_KEEPER_LIST_SERIES": "0",
        "VPM_KEEPER_LOCAL_PRICES": "0",
        "VPM_KEEPER_LOCAL_DRILLS": "0",
        "VPM_KEEPER_SETTLE_EVERY_SECONDS": "1",
        "VPM_KEEPER_SNAPSHOT_EVERY_SECONDS": "1",
        "VPM_CUP_OPENS_AT": "2020-01-01T00:00:00Z",
        "VPM_CUP_CLOSES_AT": "2100-01-01T00:00:00Z",
    }
    with chain(local_genesis, "base", folder / "anvil.log", block_seconds=1) as running:
        base = AgentChain.on(running.url, running.deployment)
        base.list("won", closes_at=base.now + 1_200)
        base.list("void", closes_at=base.now + 4_000, target=2 * CAP)
        base.list("ladder", closes_at=base.now + 20 * DAY, kind=1, bounds=[CAP // 2, CAP])
        base.list("updown", closes_at=base.now + 21 * DAY, kind=2)
        base.observe(80_000_000 * 10**8)
        with agent_service(base, database_url, deployments, folder, **env) as service:
            _stock_history(stock)
            service.start("indexer", "relayer", "api")
            service.start("keeper", VPM_STOCK_RPC_URLS="", VPM_STOCK_WS_URLS="")  # the stock chain is played by hand
            yield asyncio.run(_asked(service, stock))


def _stock_history(stock: StockChain) -> None:
    """Play a won and paid market, a void one, two past their bell (one with stale readings) and an open one."""
    stranger, contracts = DEV[5].address, stock.contracts
    history = ((0, 1, None, True), (2, 0, None, True), (0, 1, None, False), (0, 0, 60, False))
    for family, moved, max_age, is_settled in history:
        stock.push(FLAT_PRICE)
        market = stock.open_market(strike_in=90, lasts=60, family=family, max_age=max_age)
        stock.enter(RICH, market, 0, 20 * USDG)
        stock.enter(OTHER, market, 1, 30 * USDG)
        stock.warp_to(stock.now + 91)
        if moved:
            stock.push(FLAT_PRICE + moved)
        stock.warp_to(stock.now + 61)
        if not is_settled:
            continue
        stock.send(contracts.resolver.call("resolve", market), stranger)
        stock.send(contracts.settler.call("deliver", stock.positions(market)), stranger)
        if moved:
            stock.send(contracts.settler.call("sweepFees"), stranger)
    stock.push(FLAT_PRICE)
    stock.enter(RICH, stock.open_market(strike_in=60, lasts=5 * DAY, family=1), 0, 5 * USDG)
    stock.warp_to(stock.now + 61)
    stock.push(FLAT_PRICE + 7)


async def _asked(service: AgentService, stock: StockChain) -> Answers:
    found = Answers()
    async with aiohttp.ClientSession() as session:
        buyer, door = Buyer(session, service), Door(session, service.url)
        async with await connect(service.env["DATABASE_URL"]) as connection:
            connection.prepare_threshold = None
            cup = Cup(service.url, service.env["DATABASE_URL"], session, connection)
            await door.until("/api/proof", bool)  # it is gathered after the markets
            await _ask_stock(door, stock, found)
            await _ask_agent_and_cup(buyer, cup, found)
    return found


async def _ask_stock(door: Door, stock: StockChain, found: Answers) -> None:
    count = stock.read(stock.contracts.settler.call("marketCount"))
    listed_ = await door.until("/api/markets", lambda shown: len(shown["markets"]) == count)
    found.add("stock", "GET /api/markets", listed_)
    found.add("stock", "GET /api/prices", (await door.get("/api/prices"))[1])
    open_market = int(listed_["markets"][0]["id"])
    placed = stock.signed(OTHER, stock.bet(OTHER, open_market, 1))
    response, receipt = await door.post("/api/relay/enter", placed)
    assert (response.status, receipt["receipt"]) == (200, "confirmed"), receipt
    found.add("stock", "POST /api/relay/enter", receipt)
    response, refused = await door.post("/api/relay/enter", placed)
    for market in range(1, count + 1):
        found.add("stock", "GET /api/markets/[id]", (await door.get(f"/api/markets/{market}"))[1])
    stock.enter(RICH, open_market, 0, 5 * USDG)
    path = f"/api/markets/{open_market}"
    found.add("stock", "GET /api/markets/[id]", await door.until(path, lambda shown: shown["vintageBlock"] is not None))
    for owner in (RICH, OTHER, wallets.OPENER):
        answer = (await door.get("/api/positions", query={"owner": owner.address}))[1]
        found.add("stock", "GET /api/positions?owner=", answer)
    found.add("stock", "GET /api/proof", (await door.get("/api/proof"))[1])
    to_sign = f"/api/relay/typed-data?marketId={open_market}&outcome=0&amount={USDG}"
    found.add("stock", "GET /api/relay/typed-data", (await door.get(to_sign))[1])
    found.add("stock", "GET /api/health", (await door.get("/api/health"))[1])
    assert (await door.get("/api/cron/open"))[0].status == 401
    response, _ = await door.get("/api/cron/open", headers={"Authorization": f"Bearer {CRON_SECRET}"})
    found.add("stock", "GET /api/cron/[job]", {})
    for path in ("/api/markets/99999", "/api/positions", "/api/cron/open"):
        response, refused = await door.get(path)
        assert response.status in (400, 401, 404), refused
        found.add("stock", "error", refused)


async def _ask_agent_and_cup(buyer: Buyer, cup: Cup, found: Answers) -> None:
    service, base = buyer.service, buyer.service.chain
    names = ("won", "void", "ladder", "updown")
    for name in names:
        await buyer.shows(name)

    async def ask(endpoint: str, path: str, **query: object) -> Any:
        response, answer = await buyer.get(path, **query)
        assert response.status == 200, answer
        return found.add("agent", endpoint, answer)

    async def ask_of_markets() -> None:
        for status in ("open", "all"):
            await ask("GET /markets", "/markets", status=status)
        await ask("GET /markets", "/markets", limit=1)
        for name in names:
            await ask("GET /markets/{id}", f"/markets/{name}")
            await ask("GET /markets/{id}/research", f"/markets/{name}/research")
            await ask("GET /result", f"/result?marketId={name}")
        for query in ({"q": "$BNKR"}, {"q": "market cap of bankr"}, {"post": "gm"}):
            await ask("GET /discover", "/discover", **query)
        for token in ("BNKR", "AIXBT", "NONE"):
            await ask("GET /sentiment", "/sentiment", token=token)
        for who in (RICH.address, ALONE.address, "0x" + "12" * 20):
            await ask("GET /positions", "/positions", wallet=who)
            await ask("GET /wallet/{address}/readiness", f"/wallet/{who}/readiness")
            await ask("GET /resolved", "/resolved", wallet=who)
            await ask("GET /resolved", "/resolved", wallet=who, limit=1)
            await ask("GET /events/replay", "/events/replay", wallet=who)
            await ask("GET /events/replay", "/events/replay", wallet=who, limit=1)
        for endpoint in ("GET /health", "GET /getting-started"):
            await ask(endpoint, endpoint.removeprefix("GET "))

    async def buy(market: str, who: wallets.Wallet, side: str, **more: Any) -> str:
        wanted = bet(market, who, side, **more)
        response, challenge = await buyer.post(wanted)
        assert response.status == 402, challenge
        found.add("agent", "challenge", challenge)
        found.add("agent", "challenge", (await buyer.post(wanted, headers={"X-PAYMENT": "%%%"}))[1])
        envelope = sign(challenge["accepts"][0], who, now=base.now)
        for _ in range(2):  # the second is a replay
            response, paid = await buyer.post(wanted, headers=header(envelope))
            assert response.status == 200, paid
            found.add("agent", "POST /trade", paid)
        return str(paid["receipt"]["tradeId"])

    players = [await cup.claimed() for _ in range(2)]
    await _ask_cup(cup, base.ids["won"], players, found)
    quoted = await ask("GET /quote", "/quote", marketId="won", side="no", sizeUsd=25)
    lock = {"size": 25, "quoteId": quoted["quote"]["quoteId"], "minSharesOut": quoted["quote"]["suggestedMinSharesOut"]}
    async with receiver() as there:
        hook = await registered(buyer, RICH, there.url)
        found.add("agent", "POST /webhooks", {"meta": quoted["meta"], "webhook": hook})
        await active(buyer, hook["id"])
        trades = [
            await buy("won", RICH, "yes", builderCode=DEV[7].address, ref="mention:someone"),
            await buy("won", OTHER, "no", **lock),
            await buy("void", RICH, "no"),
            await buy("ladder", ALONE, "50m-to-100m"),
            await buy("updown", ALONE, "up"),
        ]
        async with buyer.session.post(f"{service.api}/webhooks/{hook['id']}/test") as response:
            found.add("agent", "POST /webhooks/{id}/test", await response.json())
        _, simulated = await buyer.post(bet("updown", RICH, "up", simulate=True))
        found.add("agent", "POST /trade", simulated)
        for market, side in (("won", "no"), ("ladder", "from-100m"), ("updown", "up")):
            await ask("GET /quote", "/quote", marketId=market, side=side, sizeUsd=3)
        await ask_of_markets()

        base.settle("won", CAP, resolve=False)
        await _resolved(buyer, "won")
        base.warp_to(base.terms("void")["voidsAfter"] + 1)
        await _resolved(buyer, "void")

        async def is_paid() -> bool:
            _, log = await buyer.get("/events/replay", wallet=RICH.address)
            return len([each for each in log["events"] if each["type"] == "payout.paid"]) == 2

        await until(is_paid, "both payouts")
        await ask_of_markets()
        await ask("GET /stats", "/stats")  # counted once a minute: only now
        for trade in trades:
            await ask("GET /proof/{tradeId}", f"/proof/{trade}")
        async with buyer.session.get(f"{service.api}/events", params={"wallet": RICH.address}) as response:
            async for message in messages(response):
                if message.data is not None:
                    found.add("agent", "GET /events (SSE)", message.data)
        # What was pushed, with the handshake and the test.
        assert {"webhook.verify", "test", "payout.paid"} <= {each.event["type"] for each in there.deliveries}
        for each in there.deliveries:
            found.add("agent", "POST /webhooks/{id}/test", {**each.event, "meta": quoted["meta"], "event": each.event})
        async with buyer.session.delete(f"{service.api}/webhooks/{hook['id']}") as response:
            found.add("agent", "DELETE /webhooks/{id}", await response.json())
    for path in ("/markets/none", "/quote", "/positions?wallet=0x12", "/sentiment", "/proof/0x12"):
        response, refused = await buyer.get(path)
        assert 400 <= response.status < 500, refused
        found.add("agent", "error", refused)
    await _ask_cup_at_the_end(cup, service, players, found)


async def _resolved(buyer: Buyer, market: str) -> None:
    async def is_resolved() -> bool:
        return bool((await buyer.get(f"/result?marketId={market}"))[1]["result"]["status"] == "resolved")

    await until(is_resolved, f"the end of {market}")


async def _ask_cup(cup: Cup, slug: str, players: list[Signer], found: Answers) -> None:
    """Claim, trade on both sides of a market, and bet in a live round."""

    async def ask(endpoint: str, path: str, **query: Any) -> Any:
        answer = await cup.get(path, **query)
        assert answer.status == 200, answer
        return found.add("cup", endpoint, answer.body)

    async def post(endpoint: str, body_: Mapping[str, Any]) -> Any:
        answer = await cup.post(endpoint.removeprefix("POST "), body_)
        assert answer.status == 200, answer
        return found.add("cup", endpoint, answer.body)

    async def is_listed() -> bool:
        return slug in [each["slug"] for each in (await cup.get("/markets", limit=100)).body["markets"]]

    async def has_opened() -> bool:
        return (await cup.get("/roulette")).status == 200

    await until(is_listed, "the paper market")
    await ask("GET /markets?limit=", "/markets", limit=100)
    await ask("GET /markets/:slug/quote?side=&sizePaper=", f"/markets/{slug}/quote", side="yes", sizePaper=25)
    for player, side in zip(players, ("yes", "no"), strict=True):
        await post("POST /wallet", {"walletAddress": player.address})
        await post("POST /agent/enroll", player.enrolment())
        trade = player.trade(slug, side, 2_500)
        await post(
            "POST /trade",
            {**{name: trade[name] for name in ("walletAddress", "slug", "side", "sizePaper")}, "simulate": True},
        )
        await post("POST /trade", trade)
        await ask("GET /wallet/:address", f"/wallet/{player.address}")
    await until(has_opened, "the first round")
    live = await ask("GET /roulette?wallet=", "/roulette", wallet=players[0].address)
    placed = players[0].bet(live["roundNo"], "colour:red", 1_000)
    await post("POST /roulette/bet", placed)
    await post(
        "POST /roulette/bet",
        {"walletAddress": players[0].address, "betKey": "num:7:yes", "stakePaper": 10, "simulate": True},
    )
    await ask("GET /roulette?wallet=", "/roulette", wallet=players[0].address)
    await ask("GET /getting-started", "/getting-started")
    for refused in (
        await cup.get("/markets/none/quote", side="yes", sizePaper=1),
        await cup.post("/trade", {**players[0].trade(slug, "yes", 100), "signature": "0x" + "11" * 65}),
    ):
        found.add("cup", "error", refused.body)


async def _ask_cup_at_the_end(cup: Cup, service: AgentService, players: list[Signer], found: Answers) -> None:
    async def is_settled() -> bool:
        positions = (await cup.get(f"/wallet/{players[0].address}")).body["positions"]
        return all(each["status"] != "open" for each in positions)

    await until(is_settled, "the paper market's end")
    for player in players:
        found.add("cup", "GET /wallet/:address", (await cup.get(f"/wallet/{player.address}")).body)
    for query in ({}, {"week": f"{now():%G-W%V}"}):
        board = await cup.get("/leaderboard", wallet=players[0].address, **query)
        found.add("cup", "GET /leaderboard?week=&limit=&wallet=", board.body)
    service.stop("keeper")  # it would open the next round
    live = await cup.value("SELECT max(round_no) FROM cup_round")
    await cup.finish_round(live)
    spun = (await cup.get("/roulette")).body
    assert spun["roundNo"] == live
    found.add("cup", "GET /roulette?wallet=", spun)
    found.tools = {each["name"]: each for each in (await cup.get("/api/cup/mcp.json")).body["tools"]}


# ---------------------------------------------------------------- one held to the other


@pytest.fixture(scope="module")
def held(answers: Answers) -> dict[str, Held]:
    found = {surface: Held() for surface in DOCUMENTS}
    for surface, endpoint, answer in answers.given:
        if endpoint in SHAPES[surface]:
            found[surface].hold(SHAPES[surface][endpoint], answer, endpoint)
    return found


@pytest.mark.parametrize("surface", DOCUMENTS)
def test_every_field_of_every_answer_is_as_written(held: dict[str, Held], surface: str) -> None:
    assert not held[surface].faults, "\n".join(sorted(held[surface].faults))


@pytest.mark.parametrize("surface", DOCUMENTS)
def test_every_field_had_a_value_in_some_answer(held: dict[str, Held], surface: str) -> None:
    unseen = [path for path in held[surface].expected - held[surface].seen if not path.endswith(WITHOUT_VALUE)]
    assert not unseen, "\n".join(sorted(unseen))


@pytest.mark.parametrize("surface", DOCUMENTS)
def test_every_endpoint_was_asked(answers: Answers, surface: str) -> None:
    asked = {endpoint for name, endpoint, _ in answers.given if name == surface}
    assert asked >= sections(surface, "Endpoints").keys() - {"MCP server"}


def test_the_tournaments_tools_take_what_is_written(answers: Answers) -> None:
    for name, inputs, _ in rows(sections("cup", "Endpoints")["MCP server"])[1:]:
        takes = answers.tools[name]["inputSchema"].get("properties", {})
        assert {each.strip().rstrip("?") for each in inputs.split(",")} - {
            "none",
            "more",
            "more inputs",
        } <= takes.keys(), name
