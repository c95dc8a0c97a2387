"""`./vpm bench cup`: the board with 100,000 wallets, signed trades and a full round, over a real database.

The board: 64 readers in a process of their own ask for the first 50 entries, for a random wallet's own rank, and for
that of a week. Beside it: the bare query for the first 50, from as many connections; targets: own ranks at half its
rate, and a p99 of 80 ms at most. Trades: a fixed number of signed trades from many wallets on several markets, signed
beforehand and sent from a process of their own, 64 at once, with durable settings. Beside them: the least a
double-entry ledger could do, two rows in one durable transaction, from as many connections; target: a tenth of their
rate or 2,500 a second, whichever is less, and a p99 of 80 ms at most.

A round of roulette with 20,000 bets of 2,500 wallets: from the moment its beacon is known until every bet is settled
and paid, the boards with them, in one durable transaction. Beside it: as many bare rows written as it writes, in one
durable statement; target: a second.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvloop
from eth_account import Account
from eth_account.messages import encode_defunct
from eth_utils.crypto import keccak

from api.__main__ import stays
from api.app import make_app, serve
from api.context import open_context
from api.cup.surface import cup_surface
from core.agent.document import Specification
from core.config import ApiSecrets, Settings
from core.contracts.statuses import MarketKind
from core.cup import books, messages, rounds, wallets, wheel
from core.cup.board import week_of
from core.cup.ledger import round_account, wallet_account
from core.cup.listing import listing_of
from core.cup.rounds import RouletteRound
from core.db.engine import Connection, connect
from core.hexadecimal import hex_of
from core.service.cancelling import end
from scripts._bench.ground import database, ground, keep
from scripts._bench.http_load import LoadResult

WALLETS = 100_000
READS = 10_000
TRADES = 4_000
WARM_UP = 400
AT_ONCE = 64
TRADERS = 200
MARKETS = 8
TARGET_MS = 80.0
TARGET_RANKS = 0.5
TARGET_OF_BARE = 0.10
TARGET_TRADES = 2_500
TARGET_TRADES_MS = 80.0
BETTORS = 2_500
BETS_EACH = 8
ROUNDS = 5
TARGET_ROUND_MS = 1_000.0

_BARE_BOARD = "SELECT wallet, debit_cents FROM cup_score WHERE period = 'all' ORDER BY debit_cents LIMIT 50"
# A paper market takes trades only beside a listed one that is open.
_LISTED = (
    "INSERT INTO agent_market (index, market_id, kind, feed, target, bounds, early_resolvable, published, max_age,"
    " opens_at, closes_at, start_at, ends_at, early_from, settles_after, voids_after, outcomes, weights, fee_bps,"
    " pot_cap, lister, metadata, staked, net_pool, stakes, late_payments, paid_out, paid_shares, given_back, status,"
    " listed_block, listed_log_index, listed_at, listed_tx, updated_block) "
    "VALUES (%s, %s, 0, %s, 1, '{}', false, false, 1, %s, %s, 0, %s, 0, %s, %s, 2, '{10000000, 10000000}', 200,"
    " 1000000000, decode(repeat('01', 20), 'hex'), '', 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1,"
    " decode(repeat('02', 32), 'hex'), 1)"
)
_BARE_TRADE = "INSERT INTO bench_entry (cents) VALUES (100), (-100)"
_BARE_ROUND = "INSERT INTO bench_entry (cents) SELECT 100 FROM generate_series(1, %s)"
_FILL = (
    "INSERT INTO cup_score SELECT p, '0x' || lpad(to_hex(i), 40, '0'), (hashint8(i) %% 1000000)::bigint,"
    " now() - (i %% 86400) * interval '1 s' FROM generate_series(1, %s) AS i, unnest(%s::text[]) AS p"
)


async def _measure(database_url: str, folder: Path) -> dict[str, Any]:
    now = datetime.now(UTC)
    settings = Settings.model_validate(
        {
            "DATABASE_URL": database_url,
            "VPM_CUP_OPENS_AT": (now - timedelta(days=1)).isoformat(),
            "VPM_CUP_CLOSES_AT": (now + timedelta(days=1)).isoformat(),
        }
    )
    tasks: list[asyncio.Task[None]] = []

    def spawn(_name: str, work: Any) -> object:
        tasks.append(asyncio.create_task(work))
        return tasks[-1]

    try:
        async with (
            open_context(settings, ApiSecrets(), spawn) as context,
            make_app(context, (cup_surface,)) as app,
            serve(app, "127.0.0.1", 0) as port,
        ):
            board = await _board(database_url, port, folder)
            bare_board = await _bare(database_url, _BARE_BOARD, READS)
            trades = await _trades(database_url, port, folder)
            bare_trades = await _bare(database_url, _BARE_TRADE, TRADES)
        round_ms, bare_round_ms = await _rounds(database_url)
    finally:
        await end(*tasks)
    return {
        "board": board,
        "bare board": bare_board,
        "trades": trades,
        "bare trades": bare_trades,
        "round_ms": round_ms,
        "bare_round_ms": bare_round_ms,
    }


async def _board(database_url: str, port: int, folder: Path) -> dict[str, dict[str, float]]:
    week = week_of(datetime.now(UTC))
    async with await connect(database_url) as connection:
        await connection.execute(_FILL.encode(), (WALLETS, ["all", week]))
        await connection.execute("VACUUM ANALYZE cup_score")
    path = "/api/cup/v1/leaderboard"

    def anybody() -> str:
        return f"0x{random.randint(1, WALLETS):040x}"

    asked: dict[str, Callable[[], str]] = {
        "entries": lambda: path,
        "own rank": lambda: f"{path}?wallet={anybody()}",
        "own rank of the week": lambda: f"{path}?week={week}&wallet={anybody()}",
    }
    figures = {}
    for name, url in asked.items():
        await _load(port, [url() for _ in range(WARM_UP)], folder)
        figures[name] = _figures(await _load(port, [url() for _ in range(READS)], folder))
    return figures


async def _trades(database_url: str, port: int, folder: Path) -> dict[str, float]:
    slugs = []
    accounts = [Account.create() for _ in range(TRADERS)]
    now = datetime.now(UTC)
    opens = int(now.timestamp()) - 60
    async with await connect(database_url) as connection:
        for number in range(1, MARKETS + 1):
            key, feed = keccak(text=f"bench-{number}"), b"\x01" * 20
            times = {"opens_at": opens, "closes_at": opens + 3_600, "ends_at": opens + 7_200}
            ends = {"settles_after": opens + 7_260, "voids_after": opens + 10_860}
            spec = Specification(
                MarketKind.THRESHOLD, 1, (), False, False, 1, feed=feed, start_at=0, early_from=0, **times, **ends
            )
            await connection.execute(_LISTED.encode(), (number, key, feed, *times.values(), *ends.values()))
            listing = listing_of(key, spec, (10_000_000, 10_000_000), None)
            await books.add(connection, listing)
            slugs.append(listing.slug)
        for account in accounts:
            await wallets.claim(connection, account.address.lower())
    bodies = [json.dumps(_trade(accounts[n % TRADERS], slugs[n % MARKETS], now)) for n in range(WARM_UP + TRADES)]
    stays()
    await _load(port, bodies[:WARM_UP], folder, "/api/cup/v1/trade")
    return _figures(await _load(port, bodies[WARM_UP:], folder, "/api/cup/v1/trade"))


async def _rounds(database_url: str) -> tuple[float, float]:
    """The slowest of some full rounds, from the beacon to the last bet, and the slowest bare write; milliseconds."""
    names = [f"0x{number:040x}" for number in range(1, BETTORS + 1)]
    took, bare = [], []
    async with await connect(database_url, autocommit=True) as connection:
        for name in names:
            await wallets.claim(connection, name)
        now = datetime.now(UTC)
        for _ in range(ROUNDS):
            live = await rounds.open_next(connection, now, 31337, 1, 0)
            assert live is not None
            await _bet(connection, live, names)
            now = live.ends_at
            began = time.perf_counter()
            done = await rounds.finish(connection, live.round_no, 2, random.randbytes(32), _standing_at(now))
            took.append((time.perf_counter() - began) * 1000)
            assert done is not None
            began = time.perf_counter()
            # A bet each, an entry and two boards a wallet.
            await connection.execute(_BARE_ROUND.encode(), (BETTORS * (BETS_EACH + 3),))
            bare.append((time.perf_counter() - began) * 1000)
    return round(max(took), 1), round(max(bare), 1)


def _standing_at(moment: datetime) -> Callable[[], datetime]:
    """A clock that stands still."""
    return lambda: moment


async def _bet(connection: Connection, live: RouletteRound, names: list[str]) -> None:
    """Everybody's bets, a transaction each on the ledger, in few statements: filling the round is not what is timed."""
    drawn = [(name, key) for name in names for key in random.sample(list(wheel.OUTCOMES), BETS_EACH)]
    posted = [f"bet:{live.round_no}:{name}:{key}" for name, key in drawn]
    stake = wheel.MIN_BET_CENTS
    async with connection.transaction():
        cursor = await connection.execute(
            "INSERT INTO cup_transaction (kind, key) SELECT 'bet', unnest(%s::text[]) RETURNING key, id", (posted,)
        )
        ids: dict[str, int] = dict(await cursor.fetchall())
        numbers = [ids[key] for key in posted]
        of_wallets = [wallet_account(name) for name, _ in drawn]
        await connection.execute(
            "INSERT INTO cup_entry (transaction_id, account, amount_cents) SELECT t, e.account, e.cents "
            "FROM unnest(%s::bigint[], %s::text[]) AS u(t, w), "
            "LATERAL (VALUES (w, -%s), (%s, %s)) AS e(account, cents)",
            (numbers, of_wallets, stake, round_account(live.round_no), stake),
        )
        await connection.execute(
            "INSERT INTO cup_bet (round_no, wallet, bet_key, transaction_id, stake_cents, issued_at, signature,"
            " balance_cents, at) SELECT %s, w, k, t, %s, '', '', 0, %s "
            "FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS u(w, k, t)",
            (live.round_no, stake, live.opens_at, [name for name, _ in drawn], [key for _, key in drawn], numbers),
        )


def _figures(load: LoadResult) -> dict[str, float]:
    return {"p50_ms": round(load.p50_ms, 2), "p99_ms": round(load.p99_ms, 2), "per_second": round(load.rate)}


async def _load(port: int, lines: list[str], folder: Path, *path: str) -> LoadResult:
    """From a process of its own, that the server has this one to itself."""
    file = folder / "asked"
    file.write_text("\n".join(lines))
    asked = ("-m", "scripts._bench.http_load", str(port), str(AT_ONCE), str(file), *path)
    process = await asyncio.create_subprocess_exec(sys.executable, *asked, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return LoadResult(**json.loads(printed))


async def _bare(database_url: str, query: str, times: int) -> dict[str, float]:
    """Milliseconds and rate of one statement, on many connections at once, each time in a transaction of its own."""
    async with await connect(database_url) as connection:
        await connection.execute("CREATE TABLE IF NOT EXISTS bench_entry (id bigserial PRIMARY KEY, cents bigint)")
    took: list[float] = []
    left = times

    async def ask(connection: Connection) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = time.perf_counter()
            await connection.execute(query.encode())
            took.append((time.perf_counter() - began) * 1000)

    async with AsyncExitStack() as stack:
        those = [await stack.enter_async_context(await connect(database_url, autocommit=True)) for _ in range(AT_ONCE)]
        began = time.perf_counter()
        await asyncio.gather(*map(ask, those))
        seconds = time.perf_counter() - began
    cuts = statistics.quantiles(took, n=100)
    return {"p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2), "per_second": round(times / seconds)}


def _trade(account: Any, slug: str, now: datetime) -> dict[str, Any]:
    wallet, issued, trade_id = account.address.lower(), now.isoformat(), str(uuid.uuid4())
    message = messages.trade_message(wallet, slug, "yes", 100, trade_id, issued)
    signature = hex_of(bytes(account.sign_message(encode_defunct(text=message)).signature))
    return {
        "walletAddress": wallet,
        "slug": slug,
        "side": "yes",
        "sizePaper": 1,
        "tradeId": trade_id,
        "issuedAt": issued,
        "signature": signature,
    }


def _row(name: str, figures: dict[str, float], bare: dict[str, float] | None = None) -> str:
    ratio = "" if bare is None else f"{figures['per_second'] / bare['per_second']:.0%}"
    return f"{name:<34}{figures['per_second']:>10,}{figures['p50_ms']:>10}{figures['p99_ms']:>10}{ratio:>10}"


def main(json_path: Path | None) -> int:
    with (
        ground("cup") as folder,
        database(folder) as url,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,  # what the daemon runs on
    ):
        measured = runner.run(_measure(url, folder))
    worst = max(each["p99_ms"] for each in measured["board"].values())
    print(f"{'':<34}{'a second':>10}{'p50, ms':>10}{'p99, ms':>10}{'of bare':>10}")
    for name, each in measured["board"].items():
        print(_row(f"board, {name}", each, measured["bare board"]))
    print(_row("bare query of the first 50", measured["bare board"]))
    print(_row("signed trades, 64 at once", measured["trades"], measured["bare trades"]))
    print(_row("bare ledger transactions", measured["bare trades"]))
    print(f"The board's p99 is {worst} ms at worst with {WALLETS:,} wallets; target under {TARGET_MS:g} ms.")
    ratios = {
        **{
            f"board, {name}, rate / bare query": each["per_second"] / measured["bare board"]["per_second"]
            for name, each in measured["board"].items()
        },
        "signed trades, rate / bare ledger": measured["trades"]["per_second"] / measured["bare trades"]["per_second"],
        "a round, time / bare rows": measured["round_ms"] / measured["bare_round_ms"],
    }
    keep(json_path, {**measured, "wallets": WALLETS, "target_ms": TARGET_MS, "ratios": ratios})
    least = min(TARGET_OF_BARE * measured["bare trades"]["per_second"], TARGET_TRADES)
    trades = measured["trades"]
    print(
        f"Trades: {trades['per_second']:,} a second, target {least:,.0f}; "
        f"p99 {trades['p99_ms']} ms, target {TARGET_TRADES_MS:g} ms."
    )
    slowest = min(measured["board"][name]["per_second"] for name in ("own rank", "own rank of the week"))
    ranks = slowest / measured["bare board"]["per_second"]
    print(f"Own ranks at {ranks:.0%} of the bare query; target {TARGET_RANKS:.0%}.")
    print(
        f"A round of {BETTORS * BETS_EACH:,} bets: {measured['round_ms']} ms at worst, target {TARGET_ROUND_MS:g} ms; "
        f"as many bare rows {measured['bare_round_ms']} ms."
    )
    good = (
        worst < TARGET_MS
        and ranks >= TARGET_RANKS
        and trades["per_second"] >= least
        and trades["p99_ms"] <= TARGET_TRADES_MS
        and measured["round_ms"] <= TARGET_ROUND_MS
    )
    return 0 if good else 1
