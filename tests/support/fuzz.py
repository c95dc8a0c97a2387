"""Random calls, valid and not, at every door of a running stack, each answer held to what is published of it.

A player draws a call, sends it, holds the answer to the description of its surface, to the page of errors and to the
relations of `tests/support/relations.py`, and keeps what the answer names (ids, cursors, keys) to ask about later. The
draws of call N come from the seed and N; a run is repeated by its seed. A complaint shows the call as it went out.
"""

from __future__ import annotations

import base64
import json
import random
import re
import secrets
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import requests
from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data

from core.cup import messages
from scripts._stack import wallets
from tests.support import relations
from tests.support.buyer import sign

AGENT, CUP = "/api/agent/v1", "/api/cup/v1"
SURFACES = {"agent": "Agent API", "stock": "Stock surface", "cup": "Cup"}
SECONDS = 60
KEPT = 60
# A stream stays open; the export is a file of lines, read by itself.
LEFT_OUT = {f"GET {AGENT}/events", f"GET {CUP}/export"}
# What an untended market is to tell, and what MCP's own protocol says of a call that is none.
TRUE_ANSWERS = {("GET /api/health", 503)}
ODD: tuple[Any, ...] = (
    "", " ", "0", "-1", "1e309", "NaN", "0x", "0x" + "0" * 40, "0x" + "f" * 64, "null", "undefined", "'; --", "../..",
    "\u0000", "\ud7ff\u202e", "ü" * 200, "9" * 80, "%00", "2026-11-23T00:00:00Z", "yes", "1.0000001", "100000000000000",
    0, -1, 1, 2.5, 1e-7, 0.1 + 0.2, 2**31, 2**63, 2**256, -(2**63) - 1, 1e308, True, False, None, [], {}, [1], {"a": 1},
)  # fmt: skip
WRONG_BODIES: tuple[bytes, ...] = (
    b"", b"{", b"null", b"[]", b"1", b'"a"', b"\xff\xfe", b'{"a": NaN}', b"[" * 5000, b'{"sizeUsd": 1e999}',
    b'{"sizeUsd": 1, "sizeUsd": 2}', b'{"walletAddress": "0x1", "walletAddress": "0x2"}', b'{"\\ud800": 1}',
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One request. `label`: the published operation, or the tool's name behind its server's path."""

    surface: str
    label: str
    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def shown(self) -> str:
        body = self.raw if self.raw is not None else self.body
        return f"{self.method} {self.path} {dict(self.query)} {body!r} {dict(self.headers)}"[:3000]


@dataclass
class Player:
    """A player of random calls. `complaints`: what was found. `asked`: how often each relation could be asked;
    `statuses`: by call and status; `followed`: what positions were projected to be paid when bets had ended."""

    origin: str
    seed: int
    cron_secret: str
    complaints: list[str] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    played: int = 0
    followed: dict[str, Any] = field(default_factory=dict)
    known: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.session = requests.Session()
        self.session.trust_env = False
        self.draw = random.Random(self.seed)
        self.callers = 0
        self.documents = {name: self._read(f"/openapi/{name}.json") for name in SURFACES}
        self.operations = [
            (surface, method.upper(), path, described)
            for surface, document in self.documents.items()
            for path, methods in document["paths"].items()
            for method, described in methods.items()
            if f"{method.upper()} {path}" not in LEFT_OUT
        ]
        self.tools = [
            (surface, tool) for surface in SURFACES for tool in self._read(f"/api/{surface}/mcp.json")["tools"]
        ]
        self.documented = documented_codes(self.session.get(f"{self.origin}/errors.txt", timeout=SECONDS).text)
        self.known["wallet"] = [each.address for each in wallets.DEV]
        self.known["side"] = ["yes", "no", "up", "down"]
        self.known["token"] = ["BNKR", "AIXBT", "VIRTUAL"]
        self.known["amount"] = ["1000000", "5000000", "100000000"]
        self.known["size"] = [1, 2.5, 3.333333, 10, 10.000001, 25, 50]
        self.known["stakePaper"] = [10, 25.5, 500]

    def play(self, calls: int) -> None:
        """That many more."""
        first, self.played = self.played, self.played + calls
        for number in range(first, self.played):
            self.draw = random.Random(f"{self.seed}/{number}")
            if number % 50 == 0:
                self.look_around()
            self.send(self.next_call())

    def has_markets(self) -> bool:
        """Whether there is something to bet on at every door."""
        for path in (f"{AGENT}/markets", f"{CUP}/markets", "/api/markets"):
            if not self._read(path)["markets"]:
                return False
        return self.session.get(f"{self.origin}{CUP}/roulette", timeout=SECONDS).status_code == 200

    def of_each_kind(self) -> list[str]:
        """The first two complaints of every kind."""
        kinds: dict[str, list[str]] = defaultdict(list)
        for each in self.complaints:
            kinds[each[:45]].append(each)
        return [each for found in kinds.values() for each in found[:2]]

    def look_around(self) -> None:
        """The lists, and of each one an entry by itself, held to each other when the entry is the same before and
        after: nothing came between."""
        for surface, listed, single in (
            ("agent", f"{AGENT}/markets", f"{AGENT}/markets/{{id}}"),
            ("stock", "/api/markets", "/api/markets/{id}"),
        ):
            lists = Call(surface, f"GET {listed}", "GET", listed, {"limit": 100})
            before = _markets(self.send(lists))
            if not before:
                continue
            # Of the many that are listed few are over, and those say the most.
            over = [name for name, each in before.items() if each.get("winner") is not None]
            one = before[self.draw.choice(over if over and self.draw.random() < 0.5 else list(before))]
            path = single.format(id=one["id"])
            alone = self.send(Call(surface, f"GET {single}", "GET", path))
            if isinstance(alone, dict) and "market" in alone and _markets(self.send(lists)).get(one["id"]) == one:
                self._hold({"listed": one, "single": alone["market"]}, f"GET {listed} and {path}")
            if surface == "stock":
                self._follow_stock(before)
        self._follow_dollars()
        self._follow_paper()
        self.send(Call("cup", f"GET {CUP}/markets", "GET", f"{CUP}/markets", {"limit": 100}))
        self.send(Call("cup", f"GET {CUP}/roulette", "GET", f"{CUP}/roulette"))
        self._ledger()

    # Nothing more happens to a book once bets have ended: what a position is projected to be paid then, it is paid.

    def _follow_stock(self, listed: Mapping[str, Any]) -> None:
        over = [name for name in self.followed if name in listed and listed[name]["phase"] in ("resolved", "void")]
        frozen = [name for name, each in listed.items() if each["phase"] == "frozen"]
        for name in frozen + over:
            path = f"/api/markets/{name}"
            answer = self.send(Call("stock", "GET /api/markets/{id}", "GET", path))
            if not (isinstance(answer, dict) and "market" in answer):
                continue
            held = {each["id"]: each for each in answer["positions"]}
            if answer["market"]["phase"] == "frozen":
                self.followed[name] = {number: each["accrued"] for number, each in held.items()}
            elif name in over:
                for number, accrued in self.followed.pop(name).items():
                    if held[number]["side"] == answer["market"]["winner"]:
                        self._hold({"projected": accrued, "paid": held[number]["settlement"]["gross"]}, path)

    def _follow_dollars(self) -> None:
        who, label = self.draw.choice(wallets.DEV).address, f"GET {AGENT}/positions"
        answer = self.send(Call("agent", label, "GET", f"{AGENT}/positions", {"wallet": who}))
        if isinstance(answer, dict) and "positions" in answer:
            at = relations.time(answer["meta"]["freshness"]["blockAt"])
            for each in answer["positions"]:
                ended = at >= relations.time(each["deadlineAt"])
                won = each["status"] == "resolved-won"
                self._follow(each["tradeId"], each, "Usd", ended=ended, paid=each["payoutUsd"] if won else None)

    def _follow_paper(self) -> None:
        who = self.draw.choice(wallets.DEV[:4]).address
        answer = self.send(Call("cup", f"GET {CUP}/wallet/{{address}}", "GET", f"{CUP}/wallet/{who}"))
        if isinstance(answer, dict) and "positions" in answer:
            at = relations.time(answer["meta"]["generatedAt"]) - timedelta(seconds=5)  # of one that is being written
            for each in answer["positions"]:
                ended = at >= relations.time(each["deadlineAt"])
                paid = each["projectedPayoutPaper"] if each["status"] == "won" else None
                self._follow(f"{who} {each['slug']} {each['side']}", each, "Paper", ended=ended, paid=paid)

    def _follow(self, name: str, position: Any, of: str, *, ended: bool, paid: Any) -> None:
        if position["status"] == "open" and ended:
            self.followed[name] = position[f"projectedPayout{of}"]
        elif position["status"] != "open" and name in self.followed:
            projected = self.followed.pop(name)
            if paid is not None:
                self._hold({"projected": projected, "paid": paid}, f"the position {name}")

    def _ledger(self) -> None:
        text = self.session.get(f"{self.origin}{CUP}/export", headers=self._caller(), timeout=SECONDS).text
        lines = [json.loads(line) for line in text.splitlines()]
        accounts = {each["account"]: each["balance_cents"] for each in lines if each["type"] == "account"}
        self._hold({**lines[0], "accounts": accounts}, f"GET {CUP}/export")

    def _read(self, path: str) -> Any:
        found = self.session.get(self.origin + path, timeout=SECONDS)
        found.raise_for_status()
        return found.json()

    # ------------------------------------------------------------ what to ask

    def next_call(self) -> Call:
        kind = self.draw.choices(
            ("rest", "tool", "quote", "trade", "paper", "wheel", "claim", "stock", "broken"),
            (36, 26, 6, 6, 8, 6, 3, 3, 6),
        )[0]
        made: Call | None = getattr(self, f"_{kind}")()
        return made or self._rest()

    def _rest(self) -> Call:
        surface, method, path, described = self.draw.choice(self.operations)
        query: dict[str, Any] = {}
        headers: dict[str, str] = {}
        filled = path
        for each in (self._resolved(surface, one) for one in described.get("parameters", ())):
            if not each.get("required") and self.draw.random() < 0.45:
                continue
            value = self._value(each["name"], self._resolved(surface, each.get("schema", {})))
            if each["in"] == "path":
                text = quote(str(value), safe="")
                filled = filled.replace("{" + each["name"] + "}", text if text.strip(".") else "x")
            elif each["in"] == "query" and (each.get("required") is not True or self.draw.random() > 0.04):
                query[each["name"]] = value
            elif each["in"] == "header":
                headers[each["name"]] = str(value).encode("ascii", "replace").decode().replace("\0", "?").strip()
        if self.draw.random() < 0.03:
            query["unheardOf"] = "1"
        if path.startswith("/api/cron") and self.draw.random() < 0.5:
            headers["Authorization"] = f"Bearer {self.cron_secret}"
        body = None
        if "requestBody" in described:
            schema = described["requestBody"]["content"]["application/json"]["schema"]
            body = self._object(surface, self._resolved(surface, schema))
        return Call(surface, f"{method} {path}", method, filled, query, body, headers=headers)

    def _tool(self) -> Call:
        surface, tool = self.draw.choice(self.tools)
        return self._tool_call(surface, tool["name"], self._object(surface, tool["inputSchema"]))

    def _tool_call(self, surface: str, name: str, arguments: Any, meta: Any = None) -> Call:
        params = {"name": name, "arguments": arguments} | ({} if meta is None else {"_meta": meta})
        path = f"/api/{surface}/mcp"
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        accept = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
        return Call(surface, f"{path} {name}", "POST", path, body=body, headers=accept)

    def _broken(self) -> Call:
        """No JSON, a key given twice, another content type, a method that the path does not have."""
        posts = [each for each in self.operations if each[1] == "POST"]
        surface, method, path, _ = self.draw.choice(posts)
        label, filled = f"{method} {path}", re.sub(r"\{\w+\}", "x", path)
        if self.draw.random() < 0.3:
            other = self.draw.choice(["PUT", "PATCH", "DELETE", "GET"])
            if other.lower() not in self.documents[surface]["paths"][path]:
                return Call(surface, f"{other} {path}", other, filled)
        if self.draw.random() < 0.25:
            surface = self.draw.choice(list(SURFACES))
            label = filled = f"/api/{surface}/mcp"
        kind = self.draw.choice(["application/json"] * 4 + ["text/plain", "application/xml"])
        headers = {"Content-Type": kind, "Accept": "application/json, text/event-stream"}
        return Call(surface, label, "POST", filled, raw=self.draw.choice(WRONG_BODIES), headers=headers)

    # ------------------------------------------------------------ bets that could be real

    def _quote(self) -> Call | None:
        surface, key, size, path = self.draw.choice(
            [
                ("agent", "id", "sizeUsd", f"{AGENT}/quote"),
                ("cup", "slug", "sizePaper", f"{CUP}/markets/{{slug}}/quote"),
            ]
        )
        market = self._market(f"{surface}Market")
        if market is None:
            return None
        amount = f"{self.draw.uniform(1, 99):.2f}"
        asked = {"side": self.draw.choice(market["outcomes"])["key"], size: amount}
        if surface == "agent":
            asked["marketId"] = market[key]
        return Call(surface, f"GET {path}", "GET", path.format(slug=market[key]), asked)

    def _trade(self) -> Call | None:
        """A bet of dollars, by either door: paid, simulated, or spoilt in one field."""
        market = self._market("agentMarket")
        if market is None:
            return None
        who = self.draw.choice(wallets.DEV)
        body: dict[str, Any] = {
            "marketId": market["id"],
            "side": self.draw.choice(market["outcomes"])["key"],
            "sizeUsd": self.draw.choice([1, 1.5, 3.333333, 10]),
            "idemKey": f"key-{self.draw.getrandbits(64):x}",
            "walletAddress": who.address,
        }
        if self.draw.random() < 0.3:
            body["sizeUsd"] = self.draw.choice([11, 25.25, 40])
            asked = {name: body[name] for name in ("marketId", "side", "sizeUsd")}
            quoted = self.send(Call("agent", f"GET {AGENT}/quote", "GET", f"{AGENT}/quote", asked))
            if isinstance(quoted, dict) and "quote" in quoted:
                quote = quoted["quote"]
                body |= {"quoteId": quote["quoteId"], "minSharesOut": float(quote["suggestedMinSharesOut"])}
        if self.draw.random() < 0.4:
            body["simulate"] = True
        if self.draw.random() < 0.2:
            body[self.draw.choice(list(body))] = self.draw.choice(ODD)
        label, path = f"POST {AGENT}/trade", f"{AGENT}/trade"
        if self.draw.random() < 0.3:
            tool = "simulate_trade" if body.pop("simulate", None) is True else "trade"
            return self._tool_call("agent", tool, body)
        first = Call("agent", label, "POST", path, body=body)
        if body.get("simulate") or self.draw.random() < 0.3:
            return first
        terms = self.send(first)
        if not (isinstance(terms, dict) and "accepts" in terms):
            return Call("agent", label, "POST", path, body=body)
        offer = relations.plain(terms["accepts"][0])
        changes: dict[str, Any] = {}
        if self.draw.random() < 0.2:
            changes[self.draw.choice(["value", "validBefore", "validAfter"])] = self.draw.choice(["0", "1", "9999999"])
        paid = base64.b64encode(json.dumps(sign(offer, who, now=int(time.time()), **changes)).encode()).decode()
        call = Call("agent", label, "POST", path, body=body, headers={"X-PAYMENT": paid})
        done = self.send(call)
        if isinstance(done, dict) and "receipt" in done:
            self._keep("tradeId", done["receipt"]["tradeId"])
            again = self.send(Call("agent", label, "POST", path, body=body))
            if isinstance(again, dict) and "receipt" in again:
                # What the book makes of it moves on; what was done stays.
                moving = {"projectedPayoutUsd", "projectedPayoutPerShareUsd", "warnings"}
                first_receipt, second = (
                    {name: value for name, value in each["receipt"].items() if name not in moving}
                    for each in (done, again)
                )
                self._hold({"first": first_receipt, "again": second}, call.shown())
        return call

    def _paper(self) -> Call | None:
        market = self._market("cupMarket")
        if market is None:
            return None
        who = self.draw.choice(wallets.DEV[:4])
        cents = self.draw.choice([100, 255, 2_500, 10_000, 2_000_000])
        side, slug = self.draw.choice(market["outcomes"])["key"], market["slug"]
        trade_id, issued = str(uuid.UUID(int=self.draw.getrandbits(128))), _now()
        text = messages.trade_message(who.address, slug, side, cents, trade_id, issued)
        body = {
            "walletAddress": who.address,
            "slug": slug,
            "side": side,
            "sizePaper": cents / 100,
            "tradeId": trade_id,
            "issuedAt": issued,
            "signature": _signed(who, text),
        }
        return self._spoilt("cup", f"{CUP}/trade", "place_paper_trade", body)

    def _wheel(self) -> Call | None:
        numbers, keys = self.known["roundNo"], self.known["betKey"]
        if not numbers or not keys:
            return None
        who = self.draw.choice(wallets.DEV[:4])
        cents, key = self.draw.choice([1_000, 2_550, 50_000, 100]), self.draw.choice(keys)
        number, issued = int(numbers[-1]), _now()
        text = messages.bet_message(who.address, number, key, cents, issued)
        body = {
            "walletAddress": who.address,
            "roundNo": number,
            "betKey": key,
            "stakePaper": cents / 100,
            "issuedAt": issued,
            "signature": _signed(who, text),
        }
        return self._spoilt("cup", f"{CUP}/roulette/bet", "place_roulette_bet", body)

    def _claim(self) -> Call:
        who = self.draw.choice(wallets.DEV[:4])
        return self._spoilt("cup", f"{CUP}/wallet", "create_wallet", {"walletAddress": who.address})

    def _stock(self) -> Call | None:
        market = self._market("stockMarket")
        if market is None:
            return None
        who = self.draw.choice(wallets.DEV)
        asked = {
            "marketId": market["id"],
            "outcome": self.draw.randrange(2),
            "amount": self.draw.choice(["1000000", "5000000", "7654321"]),
            "from": who.address,
        }
        typed = self.send(Call("stock", "GET /api/relay/typed-data", "GET", "/api/relay/typed-data", asked))
        if not (isinstance(typed, dict) and "request" in typed):
            return None
        message = {
            name: int(value) if name in ("value", "validAfter", "validBefore") else value
            for name, value in typed["message"].items()
        }
        whole = relations.plain({name: typed[name] for name in ("domain", "types", "primaryType")})
        signable = encode_typed_data(full_message=whole | {"message": message})
        signature = Account.sign_message(signable, who.private_key).signature
        body = {**relations.plain(typed["request"]), "signature": "0x" + bytes(signature).hex()}
        return self._spoilt("stock", "/api/relay/enter", "place_bet", body)

    def _spoilt(self, surface: str, path: str, tool: str, body: dict[str, Any]) -> Call:
        """As it is, or with one field of it odd or missing; by either door, and sometimes only simulated."""
        chance = self.draw.random()
        if chance < 0.2:
            body[self.draw.choice(list(body))] = self.draw.choice(ODD)
        elif chance < 0.3:
            del body[self.draw.choice(list(body))]
        elif chance < 0.4 and surface == "cup" and "signature" in body:
            body = {name: value for name, value in body.items() if name not in ("signature", "issuedAt", "tradeId")}
            body["simulate"] = True
        if self.draw.random() < 0.3:
            if surface == "cup" and "signature" in body:
                body["simulate"] = False
            return self._tool_call(surface, tool, body)
        return Call(surface, f"POST {path}", "POST", path, body=body)

    def _market(self, name: str) -> Any:
        return self.draw.choice(self.known[name]) if self.known[name] else None

    # ------------------------------------------------------------ values

    def _object(self, surface: str, schema: Mapping[str, Any]) -> Any:
        if self.draw.random() < 0.02:
            return self.draw.choice(ODD)
        properties = schema.get("properties", {})
        required = schema.get("required", ())
        chosen = [name for name in properties if name in required or self.draw.random() < 0.4]
        if chosen and self.draw.random() < 0.06:
            chosen.remove(self.draw.choice(chosen))
        made = {name: self._value(name, self._resolved(surface, properties[name])) for name in chosen}
        if self.draw.random() < 0.04:
            made["unheardOf"] = self.draw.choice(ODD)
        return made

    def _value(self, name: str, schema: Mapping[str, Any]) -> Any:
        chance = self.draw.random()
        if chance < 0.12:
            return self.draw.choice(ODD)
        known = self._known(name)
        if known and chance < 0.85:
            return self.draw.choice(known)
        if "enum" in schema:
            return self.draw.choice(schema["enum"])
        if "anyOf" in schema:
            schema = self.draw.choice(schema["anyOf"])
        kind = schema.get("type")
        if kind == "integer":
            low = int(schema.get("minimum", schema.get("exclusiveMinimum", -3)))
            return self.draw.randint(low - 1, int(schema.get("maximum", low + 300)) + 1)
        if kind == "number":
            return self.draw.choice([1, 2.5, 9.99, 10, 25, 1_000_000_000, round(self.draw.uniform(0, 60), 6)])
        if kind == "boolean":
            return self.draw.random() < 0.5
        if "pattern" in schema and "40" in schema["pattern"]:
            return "0x" + f"{self.draw.getrandbits(160):040x}"
        return "".join(self.draw.choices("abcxyz0189-_ :.$é", k=self.draw.randrange(1, 24)))

    def _known(self, name: str) -> list[Any]:
        low = name.lower()
        if name in ("wallet", "walletAddress", "address", "owner", "from"):
            return self.known["wallet"]
        if name in ("id", "marketId", "ids", "slug"):
            return self.known["marketId"] + self.known["slug"]
        if low.startswith("size"):
            return self.known["size"]
        return self.known[name]

    def _resolved(self, surface: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            place: Any = self.documents[surface]
            for step in schema["$ref"].lstrip("#/").split("/"):
                place = place[step]
            schema = place
        return schema

    def _keep(self, name: str, value: Any) -> None:
        kept = self.known[name]
        if value in kept:
            kept.remove(value)
        kept.append(value)
        del kept[:-KEPT]

    def _learn(self, surface: str, answer: Any) -> None:
        for each in relations.objects(answer):
            for name in ("tradeId", "quoteId", "nextCursor", "nextBefore", "slug", "marketId", "roundNo"):
                if isinstance(each.get(name), str) or (name == "roundNo" and each.get(name) is not None):
                    self._keep({"nextCursor": "cursor", "nextBefore": "before"}.get(name, name), each[name])
            if {"truePct", "crowdPct", "key"} <= each.keys():
                self._keep("betKey", each["key"])
            if {"outcomes", "poolPaper", "slug"} <= each.keys() and "sizePaper" not in each:
                self._remember("cupMarket", each, "slug")
            if {"outcomes", "deadlineLabel", "volumeUsd"} <= each.keys() and each["status"] == "open":
                self._remember("agentMarket", each, "id")
                self._keep("marketId", each["id"])
            if each.get("acceptingBets") is True:
                self._remember("stockMarket", each, "id")
                self._keep("marketId", each["id"])

    def _remember(self, name: str, market: Any, key: str) -> None:
        self.known[name] = [each for each in self.known[name] if each[key] != market[key]][-KEPT:] + [market]

    # ------------------------------------------------------------ what came back

    def send(self, call: Call) -> Any:
        """The answer's body; what is wrong with it is among the complaints."""
        headers = {**self._caller(), **call.headers}
        kind = {"Content-Type": "application/json"} if call.raw is None and call.body is not None else {}
        data = call.raw
        if data is None and call.body is not None:
            data = json.dumps(relations.plain(call.body)).encode()
        try:
            response = self.session.request(
                call.method,
                self.origin + call.path,
                params={name: _text(value) for name, value in call.query.items()},
                data=data,
                headers={**kind, **headers},
                timeout=SECONDS,
            )
        except requests.RequestException as error:
            self.complaints.append(f"no answer: {error}\n  to {call.shown()}")
            return None
        try:
            body = relations.read(response.content)
        except ValueError:
            body = None
        if call.path.endswith("/mcp") and call.method == "POST":
            return self._hold_tool(call, response, body)
        self.statuses[call.label, response.status_code] += 1
        self._hold_published(call, response, body)
        if body is not None and not call.path.endswith("mcp.json"):  # which tells of fields and has none of them
            self._hold(body, call.shown())
            self._learn(call.surface, body)
        return body

    def _hold_published(self, call: Call, response: requests.Response, body: Any) -> None:
        status = response.status_code
        told = f"{status} {response.text[:600]}\n  to {call.shown()}"
        if status >= 500 and (call.label, status) not in TRUE_ANSWERS:
            self.complaints.append(f"a server error: {told}")
        method, _, path = call.label.partition(" ")
        described = self.documents[call.surface]["paths"].get(path, {}).get(method.lower())
        if described is not None and str(status) not in described["responses"]:
            self.complaints.append(f"a status that is not published: {told}")
        if status >= 400 and (call.label, status) not in TRUE_ANSWERS:
            if not isinstance(body, dict):
                self.complaints.append(f"an error that is not JSON: {told}")
            elif "accepts" not in body:
                self._hold_code(call.surface, body, told, described, status)

    def _hold_code(self, surface: str, body: Any, told: str, described: Any, status: int) -> None:
        code = body.get("error")
        self.codes[f"{surface} {code}"] += 1
        if code not in self.documented[surface] or not body.get("message"):
            self.complaints.append(f"an error that no page explains: {told}")
        answer = (described or {}).get("responses", {}).get(str(status), {})
        schema = self._resolved(surface, answer.get("content", {}).get("application/json", {}).get("schema", {}))
        listed = schema.get("properties", {}).get("error", {}).get("enum")
        if listed is not None and code not in listed:
            self.complaints.append(f"a code that is not published: {told}")

    def _hold_tool(self, call: Call, response: requests.Response, body: Any) -> Any:
        told = f"{response.status_code} {response.text[:600]}\n  to {call.shown()}"
        self.statuses[call.label, response.status_code] += 1
        if response.status_code >= 500:
            self.complaints.append(f"a server error: {told}")
        if not isinstance(body, dict) or "result" not in body:
            refused = isinstance(body, dict) and {"error"} <= body.keys()
            if not refused:
                self.complaints.append(f"an answer that is not of MCP: {told}")
            elif isinstance(body["error"], dict) and body["error"]["code"] == -32603:
                self.complaints.append(f"a server error: {told}")
            return None
        result = body["result"]
        text = relations.read(result["content"][0]["text"])
        if result.get("isError"):
            if "accepts" not in text:
                self.statuses[call.label, int(text.get("status", 0))] += 1
                if text.get("status", 0) >= 500:
                    self.complaints.append(f"a server error: {told}")
                self._hold_code(call.surface, text, told, None, 0)
            return text
        if json.loads(response.content)["result"]["structuredContent"] != json.loads(result["content"][0]["text"]):
            self.complaints.append(f"two contents that differ: {told}")
        self._hold(text, call.shown())
        self._learn(call.surface, text)
        return text

    def _hold(self, answer: Any, asked: str) -> None:
        self.complaints.extend(f"{each}\n  to {asked}" for each in relations.contradictions(answer, self.asked))

    def _caller(self) -> dict[str, str]:
        """An address of its own for every call, so that limits stay out of the way."""
        self.callers += 1
        return {"X-Forwarded-For": f"10.{self.callers >> 16 & 255}.{self.callers >> 8 & 255}.{self.callers & 255}"}


def documented_codes(page: str) -> dict[str, set[str]]:
    """The codes of each surface by the page of errors."""
    found: dict[str, set[str]] = {}
    for part in page.split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        found[title.strip()] = set(re.findall(r"^([a-z][a-z0-9_]+)$", rest, re.MULTILINE))
    common = found["Stock surface and cup"]
    return {
        "agent": found["Agent API"],
        "stock": found["Stock surface"] | common,
        "cup": found["Cup"] | common,
    }


def new_seed() -> int:
    return secrets.randbelow(10**9)


def _markets(answer: Any) -> dict[str, Any]:
    """Of a list's answer, by their ids."""
    return {each["id"]: each for each in answer["markets"]} if isinstance(answer, dict) and "markets" in answer else {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _signed(who: wallets.Wallet, text: str) -> str:
    return "0x" + bytes(Account.sign_message(encode_defunct(text=text), who.private_key).signature).hex()


def _text(value: Any) -> str:
    value = relations.plain(value)
    if isinstance(value, bool) or value is None or isinstance(value, (list, dict)):
        return json.dumps(value)
    return str(value)
