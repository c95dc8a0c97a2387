"""A day of the tournament on a clock of its own: the file it leaves is enough to recompute it; a changed one is not.

The rounds, bets, trades and settlements are the real ones on a real database; only the time is told, and the chain's
blocks are made up. Two hours around the turn of a week by default, the whole day (1,728 rounds) with `VPM_TEST_LONG=1`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from eth_utils.crypto import keccak

from core.contracts.statuses import MarketKind
from core.cup import betting, books, enrolment, rounds, settling, trading, wallets, wheel
from core.cup.export import lines
from core.cup.messages import signature_bytes
from core.cup.refusal import Refusal
from core.cup.rounds import BETTING, SPIN
from core.cup.verify import main as verify_main
from core.db.engine import Connection, connect
from tests.support.cup_rig import CHAIN_ID, LIST_AGENT_MARKET, Signer, agent_market_row, listing_named, specification
from tests.support.cup_tampering import TAMPERINGS, tampered

LONG = os.environ.get("VPM_TEST_LONG") == "1"
HOURS = 24 if LONG else 2
NEW_WEEK = datetime(2026, 11, 23, tzinfo=UTC)
PLAYERS = 16
BLOCK_SECONDS = 2


@dataclass
class Day:
    """A day of the tournament. `now` is its time, which moves when the day is told to go on."""

    connection: Connection
    now: datetime
    chance: random.Random
    players: list[Signer] = field(default_factory=list)
    open_markets: list[str] = field(default_factory=list)
    settled: int = 0
    refusals: Counter[str] = field(default_factory=Counter)

    @property
    def head(self) -> tuple[int, int]:
        """Number and time of the chain's newest block."""
        seconds = int(self.now.timestamp())
        return seconds // BLOCK_SECONDS, seconds - seconds % BLOCK_SECONDS

    async def player(self) -> Signer:
        signer = Signer()
        await wallets.claim(self.connection, signer.address)
        given = signer.enrolment(self.now)
        signature = signature_bytes(given["signature"])
        assert signature is not None
        await enrolment.enrol(self.connection, signer.address, "", given["issuedAt"], signature)
        self.players.append(signer)
        return signer

    async def market(self) -> None:
        """One that takes trades for three quarters of an hour."""
        slug = f"market-{int(self.now.timestamp())}"
        kind, outcomes = self.chance.choice(
            ((MarketKind.THRESHOLD, 2), (MarketKind.RANGE, 4), (MarketKind.DIRECTION, 2))
        )
        opens, closes = (int((self.now + each).timestamp()) for each in (timedelta(), timedelta(minutes=45)))
        spec = specification(kind, outcomes, opens, closes)
        listing = listing_named(slug, spec, outcomes)
        row = agent_market_row(listing.market_key, spec, outcomes, slug)
        await self.connection.execute(LIST_AGENT_MARKET.encode(), row)
        assert await books.add(self.connection, listing)
        self.open_markets.append(slug)

    async def settle_what_ended(self) -> None:
        for slug in tuple(self.open_markets):
            market = await books.find(self.connection, slug)
            if market.closes_at <= self.now:
                self.settled += 1
                winner = None if self.settled % 3 == 2 else self.chance.randrange(len(market.sides))
                assert await settling.settle(self.connection, slug, winner, lambda: self.now) is not None
                self.open_markets.remove(slug)

    async def round(self) -> None:
        """Bets and trades while the wheel takes them, the draw, and the spin until the next may open."""
        number, at = self.head
        live = await rounds.open_next(self.connection, self.now, CHAIN_ID, number, at)
        assert live is not None
        opened = self.now
        for second in sorted(self.chance.sample(range(1, int(BETTING.total_seconds())), 3)):
            self.now = opened + timedelta(seconds=second)
            await self.bet(live.round_no)
        if self.chance.random() < 0.4:
            await self.trade()
        self.now = live.ends_at
        beacon = -(-live.beacon_after // BLOCK_SECONDS)
        assert await rounds.finish(
            self.connection, live.round_no, beacon, keccak(text=f"block {beacon}"), lambda: self.now
        )

    async def bet(self, round_no: int) -> None:
        signer = self.chance.choice(self.players)
        cents = self.chance.randint(wheel.MIN_BET_CENTS, wheel.MAX_BET_CENTS)
        given = signer.bet(round_no, self.chance.choice(list(wheel.OUTCOMES)), cents, self.now)
        signature = signature_bytes(given["signature"])
        assert signature is not None
        wanted = betting.RouletteBet(signer.address, round_no, given["betKey"], cents, given["issuedAt"], signature)
        try:
            await betting.place(self.connection, wanted, lambda: self.now)
        except Refusal as refusal:
            await self.refused(refusal)

    async def trade(self) -> None:
        market = await books.find(self.connection, self.chance.choice(self.open_markets))
        signer, side = self.chance.choice(self.players), self.chance.choice(market.sides).key
        cents = self.chance.randint(1, 50_000)
        given = signer.trade(market.slug, side, cents, at=self.now)
        signature = signature_bytes(given["signature"])
        assert signature is not None
        wanted = trading.PaperOrder(
            given["tradeId"], signer.address, market.slug, side, cents, given["issuedAt"], signature
        )
        (answer,) = await trading.place(self.connection, [wanted], lambda: self.now)
        if isinstance(answer, Refusal):
            await self.refused(answer)
        else:
            assert isinstance(answer, trading.PaperReceipt)

    async def refused(self, refusal: Refusal) -> None:
        """Who has lost everything is followed by a new player."""
        self.refusals[refusal.code] += 1
        assert refusal.code in ("insufficient_funds", "market_closed", "bet_conflict"), refusal.message
        if refusal.code == "insufficient_funds":
            await self.player()


@pytest.mark.timeout(300 if not LONG else 1800)
@pytest.mark.thorough
async def test_a_day_of_rounds_verifies_from_its_export_alone(fresh_database_url: str, tmp_path: Path) -> None:
    chance = random.Random(11)
    async with await connect(fresh_database_url) as connection:
        await connection.execute("SET synchronous_commit TO off")
        day = Day(connection, NEW_WEEK - timedelta(hours=HOURS / 2), chance)
        ends, next_market = day.now + timedelta(hours=HOURS), day.now
        for _ in range(PLAYERS):
            await day.player()
        played = 0
        while day.now < ends:
            if day.now >= next_market:
                await day.market()
                next_market += timedelta(minutes=30)
            await day.settle_what_ended()
            await day.round()
            played += 1
        raw = b"".join([piece async for piece in lines(connection)])
    assert played == HOURS * 3600 // (BETTING + SPIN).total_seconds()
    file = tmp_path / "day.ndjson"
    file.write_bytes(raw)
    assert verify_main([str(file)]) == 0

    rows = [orjson.loads(line) for line in raw.splitlines()]
    kinds = Counter(row["type"] for row in rows)
    print(f"{dict(kinds)}, {len(raw):,} bytes, refused {dict(day.refusals)}")
    assert kinds["round"] == played
    assert {row["period"] for row in rows if row["type"] == "score"} == {"all", "2026-W47", "2026-W48"}
    # Missing any in a day, or eight in two hours, is not going to happen.
    pockets = {row["pocket"] for row in rows if row["type"] == "round"}
    assert pockets <= set(range(wheel.POCKETS))
    assert len(pockets) >= (wheel.POCKETS if LONG else wheel.POCKETS - 8)
    assert {row["status"] for row in rows if row["type"] == "market"} == {"open", "resolved", "void"}

    for kind, change in TAMPERINGS:
        file.write_bytes(tampered(raw, kind, change, chance))
        assert verify_main([str(file)]) == 1, (kind, change)
    # A row left out or told twice; the count in the last line is corrected, as a forger would.
    for kind in ("bet", "trade", "round", "transaction", "score", "position", "account", "market"):
        at = chance.choice([at for at, row in enumerate(rows) if row["type"] == kind])
        for forged in (rows[:at] + rows[at + 1 :], [*rows[: at + 1], *rows[at:]]):
            end = {**forged[-1], "lines": len(forged) - 1}
            file.write_bytes(b"\n".join(orjson.dumps(row) for row in (*forged[:-1], end)))
            assert verify_main([str(file)]) == 1, (kind, rows[at])
