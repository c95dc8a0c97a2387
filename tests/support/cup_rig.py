"""The tournament behind its public interface: a served application over a real database, wallets that sign, and rounds
made by hand."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
from eth_account import Account
from eth_account.messages import encode_defunct
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak
from pydantic import SecretStr

from api.app import application, bounded, serve
from api.context import open_context
from api.cup import requests
from api.cup.surface import cup_surface
from api.openapi import docs_surface
from core.agent.document import Specification
from core.config import ApiSecrets, Settings
from core.contracts.statuses import MarketKind
from core.cup import books, rounds
from core.cup.books import new_market
from core.cup.rounds import RouletteRound
from core.db.engine import Connection, connect
from core.service.cancelling import cancel_and_wait

BASE = "/api/cup/v1"
CHAIN_ID = 8453

FEED = b"\x01" * 20
UNACCOUNTED = (
    "SELECT (SELECT sum(balance_cents)::bigint FROM cup_account)"
    " + (SELECT sum(amount_cents)::bigint FROM cup_entry WHERE account = 'mint')"
)
"""What everybody holds, less what the mint gave."""

WEIGHT = 10 * 10**6
"""Units of virtual weight of every outcome that is listed here."""


def now() -> datetime:
    return datetime.now(UTC)


def iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def specification(
    kind: MarketKind = MarketKind.THRESHOLD, outcomes: int = 2, opens: int = 0, closes: int = 4_000_000_000, **more: Any
) -> Specification:
    direction = kind is MarketKind.DIRECTION
    times = {"start_at": closes + 120 if direction else 0, "ends_at": closes + (240 if direction else 120)}
    return Specification(
        **{
            "kind": kind,
            "feed": FEED,
            "target": 10**16 if kind is MarketKind.THRESHOLD else 0,
            "bounds": tuple(bound * 10**16 for bound in range(1, outcomes)) if kind is MarketKind.RANGE else (),
            "early_resolvable": False,
            "published": False,
            "max_age": 3_600,
            "opens_at": opens,
            "closes_at": closes,
            **times,
            "early_from": 0,
            "settles_after": times["ends_at"] + 60,
            "voids_after": times["ends_at"] + 3_660,
            **more,
        }
    )


def listed_market(key: bytes, spec: Specification, outcomes: int = 2, slug: str | None = None) -> tuple[str, list[Any]]:
    """Return the statement with which the indexer writes a market that was listed, and its values."""
    nothing = ("staked", "net_pool", "stakes", "late_payments", "paid_out", "paid_shares", "given_back")
    row = {
        **asdict(spec),
        **dict.fromkeys((*nothing, "listed_log_index"), 0),
        **dict.fromkeys(("status", "listed_block", "listed_at", "updated_block"), 1),
        **{"market_id": key, "slug": slug, "kind": int(spec.kind), "bounds": list(spec.bounds), "metadata": ""},
        **{"outcomes": outcomes, "weights": [WEIGHT] * outcomes, "fee_bps": 200, "pot_cap": 10**9},
        **{"lister": spec.feed, "listed_tx": b"\x02" * 32},
    }
    number = "(SELECT COALESCE(max(index), 0) + 1 FROM agent_market)"
    marks = ", ".join(["%s"] * len(row))
    return f"INSERT INTO agent_market (index, {', '.join(row)}) VALUES ({number}, {marks})", list(row.values())


@dataclass(frozen=True)
class Answer:
    status: int
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass
class Signer:
    account: LocalAccount = field(default_factory=Account.create)

    @property
    def address(self) -> str:
        return str(self.account.address).lower()

    def sign(self, message: str) -> str:
        return "0x" + bytes(self.account.sign_message(encode_defunct(text=message)).signature).hex()

    def trade(self, slug: str, side: str, cents: int, trade_id: str | None = None, at: datetime | None = None) -> Any:
        trade_id, issued = trade_id or str(uuid.uuid4()), iso(at or now())
        message = requests.trade_message(self.address, slug, side, cents, trade_id, issued)
        return {
            "walletAddress": self.address,
            "slug": slug,
            "side": side,
            "sizePaper": cents / 100,
            "tradeId": trade_id,
            "issuedAt": issued,
            "signature": self.sign(message),
        }

    def bet(self, round_no: int, bet_key: str, cents: int, at: datetime | None = None) -> dict[str, Any]:
        issued = iso(at or now())
        message = requests.bet_message(self.address, round_no, bet_key, cents, issued)
        return {
            "walletAddress": self.address,
            "roundNo": round_no,
            "betKey": bet_key,
            "stakePaper": cents / 100,
            "issuedAt": issued,
            "signature": self.sign(message),
        }

    def enrolment(self, at: datetime | None = None, **more: Any) -> dict[str, Any]:
        issued = iso(at or now())
        signature = self.sign(requests.enrolment_message(self.address, issued))
        return {"walletAddress": self.address, "issuedAt": issued, "signature": signature, **more}


@dataclass
class Cup:
    url: str
    database_url: str
    session: aiohttp.ClientSession
    _connection: Connection
    _free: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get(self, path: str, **query: Any) -> Answer:
        return await self._ask("GET", path, params={name: str(value) for name, value in query.items()})

    async def post(self, path: str, body: Any) -> Answer:
        return await self._ask("POST", path, json=body)

    async def claimed(self) -> Signer:
        signer = Signer()
        answer = await self.post("/wallet", {"walletAddress": signer.address})
        assert answer.status == 200, answer
        return signer

    async def balance(self, signer: Signer) -> float:
        return float((await self.get(f"/wallet/{signer.address}")).body["balancePaper"])

    async def market(
        self,
        kind: MarketKind = MarketKind.THRESHOLD,
        outcomes: int = 2,
        *,
        opened: timedelta = timedelta(hours=-1),
        closes: timedelta = timedelta(hours=1),
    ) -> str:
        """List a market with a name of its own, and return its slug; a range has the sides b0, b1 and so on."""
        slug = f"market-{uuid.uuid4().hex[:10]}"
        opens, ends = (int((now() + each).timestamp()) for each in (opened, closes))
        spec = specification(kind, outcomes, opens, ends)
        key = keccak(text=slug)
        market = new_market(key, spec, (WEIGHT,) * outcomes, None)
        sides = market.sides
        if kind is MarketKind.RANGE:
            sides = tuple(replace(side, key=f"b{position}") for position, side in enumerate(sides))
        market = replace(market, slug=slug, market_id=slug, question=f"Will {slug} happen?", sides=sides)
        async with self._database() as connection:
            query, values = listed_market(key, spec, outcomes, slug)
            await connection.execute(query.encode(), values)
            assert await books.add(connection, key, market)
        return slug

    async def open_round(self, betting_left: timedelta = timedelta(seconds=45), head: int = 100) -> RouletteRound:
        """Open the next round so long ago that betting lasts `betting_left` seconds from now. A round that a failed
        test left is ended first."""
        left = await self.value("SELECT round_no FROM cup_round WHERE pocket IS NULL")
        if left is not None:
            await self.finish_round(left)
        at = now() - rounds.BETTING + betting_left
        async with self._database() as connection:
            opened = await rounds.open_next(connection, at, CHAIN_ID, head, int(at.timestamp()))
        assert opened is not None
        return opened

    async def close_round(self, round_no: int) -> None:
        await self.run(
            "UPDATE cup_round SET opens_at = now() - interval '105 s', closes_at = now() - interval '60 s', "
            "ends_at = now() - interval '55 s' WHERE round_no = %s",
            round_no,
        )
        await self.run("UPDATE cup_bet SET at = now() - interval '100 s' WHERE round_no = %s", round_no)

    async def finish_round(self, round_no: int, beacon: bytes = b"\x11" * 32) -> RouletteRound:
        await self.close_round(round_no)
        async with self._database() as connection:
            done = await rounds.finish(connection, round_no, 123, beacon, now)
        assert done is not None
        return done

    async def run(self, query: str, *values: Any) -> None:
        async with self._database() as connection:
            await connection.execute(query.encode(), values)

    async def value(self, query: str, *values: Any) -> Any:
        async with self._database() as connection:
            row = await (await connection.execute(query.encode(), values)).fetchone()
        return None if row is None else row[0]

    @asynccontextmanager
    async def _database(self) -> AsyncIterator[Connection]:
        async with self._free:
            yield self._connection

    async def _ask(self, method: str, path: str, **how: Any) -> Answer:
        async with self.session.request(
            method, self.url + (path if path.startswith("/api") else BASE + path), **how
        ) as r:
            raw = await r.read()
            return Answer(r.status, json.loads(raw) if raw else {}, dict(r.headers))


def settings_for(database_url: str, **changes: Any) -> Settings:
    values = {
        "DATABASE_URL": database_url,
        "VPM_CUP_OPENS_AT": iso(now() - timedelta(days=1)),
        "VPM_CUP_CLOSES_AT": iso(now() + timedelta(days=1)),
        **changes,
    }
    return Settings.model_validate({name: value for name, value in values.items() if value is not None})


@asynccontextmanager
async def cup_door(database_url: str, **changes: Any) -> AsyncIterator[Cup]:
    """Serve the tournament alone. `changes` are settings by variable name; None leaves one out."""
    tasks: list[asyncio.Task[None]] = []

    def spawn(name: str, work: Coroutine[Any, Any, None]) -> object:
        tasks.append(asyncio.create_task(work, name=name))
        return tasks[-1]

    settings = settings_for(database_url, **changes)
    try:
        async with (
            open_context(settings, ApiSecrets.model_validate({"CRON_SECRET": SecretStr("x" * 32)}), spawn) as context,
            cup_surface(context) as surface,
            serve(
                bounded(application([surface, docs_surface([surface], title="", server="")]), settings), "127.0.0.1", 0
            ) as port,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
            await connect(database_url) as connection,
        ):
            connection.prepare_threshold = None  # a plan could be older than a test's changes to a table
            yield Cup(f"http://127.0.0.1:{port}", database_url, session, connection)
    finally:
        await cancel_and_wait(*tasks)
