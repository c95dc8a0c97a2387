"""`./vpm bench cup`: measures the board with 100,000 wallets, signed trades and a full roulette round, on a real
database with durable settings. The requests are prepared in advance and sent from another process. The baselines are
the bare query, a transaction that writes two ledger rows, and one statement that writes as many rows as a round does.
`--quick` uses a tenth of everything."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from api.__main__ import freeze_loaded_objects
from core.cup import ledger, rounds, wheel
from core.cup.board import week_of
from core.cup.ledger import round_account, wallet_account
from core.cup.rounds import RouletteRound
from core.db.engine import Connection, connect
from scripts._bench.harness import Figure, database, fresh_process, timed
from scripts._bench.http_load import LoadResult, get, load_blocking, post
from tests.support.cup_rig import Cup, Signer, cup_door

WARMUP = 400
CONCURRENCY = 64
ROUNDS = 5
P99_MS, ROUND_MS = 80.0, 1_000.0
RANKS_OF_BARE, TRADES_OF_BARE, TRADES_A_SECOND = 0.5, 0.10, 2_500
# With --quick a tenth of each.
WALLETS, READS, TRADES, BETTORS = 100_000, 10_000, 4_000, 2_500
TRADERS = 200
MARKETS = 8
BETS_EACH = 8

_BARE_BOARD = "SELECT wallet, debit_cents FROM cup_score WHERE period = 'all' ORDER BY debit_cents LIMIT 50"
_BARE_TRADE = "INSERT INTO bench_entry (cents) VALUES (100), (-100)"
_BARE_ROUND = "INSERT INTO bench_entry (cents) SELECT 100 FROM generate_series(1, %s)"
_FILL = (
    "INSERT INTO cup_score SELECT p, '0x' || lpad(to_hex(i), 40, '0'), (hashint8(i) %% 1000000)::bigint,"
    " now() - (i %% 86400) * interval '1 s' FROM generate_series(1, %s) AS i, unnest(%s::text[]) AS p"
)
# All bets of a round, each a ledger transaction.
_FILL_ROUND = (
    "WITH drawn AS (SELECT *, format('bet:%%s:%%s:%%s', %(round)s::bigint, wallet, bet_key) AS key"
    " FROM unnest(%(wallets)s::text[], %(accounts)s::text[], %(keys)s::text[]) AS d(wallet, account, bet_key)),"
    " made AS (INSERT INTO cup_transaction (kind, key) SELECT 'bet', key FROM drawn RETURNING id, key),"
    " posted AS (INSERT INTO cup_entry (transaction_id, account, amount_cents) SELECT id, e.account, e.cents"
    " FROM drawn JOIN made USING (key),"
    " LATERAL (VALUES (drawn.account, -%(stake)s), (%(pool)s, %(stake)s)) AS e(account, cents))"
    " INSERT INTO cup_bet (round_no, wallet, bet_key, transaction_id, stake_cents, issued_at, signature,"
    " balance_cents, at) SELECT %(round)s, wallet, bet_key, id, %(stake)s, '', '', 0, %(at)s"
    " FROM drawn JOIN made USING (key)"
)


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    with database(folder) as url:
        return uvloop.run(_measure(url, 10 if quick else 1))  # as the daemon does


async def _measure(database_url: str, part: int) -> list[Figure]:
    async with cup_door(database_url) as cup:
        board = await _board(cup, WALLETS // part, READS // part)
        bare_board = await _bare(database_url, _BARE_BOARD, READS // part)
        trades = await _trades(cup, TRADES // part)
        bare_trades = await _bare(database_url, _BARE_TRADE, TRADES // part)
    bettors = BETTORS // part
    round_ms, bare_round_ms = await _rounds(database_url, bettors)
    rows = []
    for name, each in board.items():
        least = None if name == "entries" else RANKS_OF_BARE
        rows.append(Figure(f"board, {name}, requests/s", each.rate, bare_board, least_ratio=least))
        rows.append(Figure(f"board, {name}, p99 ms", each.p99_ms, most=P99_MS))
    least_trades = min(TRADES_OF_BARE * bare_trades, TRADES_A_SECOND)
    return [
        *rows,
        Figure("signed trades/s", trades.rate, bare_trades, least=least_trades),
        Figure("signed trades, p99 ms", trades.p99_ms, most=P99_MS),
        Figure(f"a round of {bettors * BETS_EACH:,} bets, slowest, ms", round_ms, bare_round_ms, most=ROUND_MS),
    ]


async def _board(cup: Cup, many: int, reads: int) -> dict[str, LoadResult]:
    week = week_of(datetime.now(UTC))
    await cup.run(_FILL, many, ["all", week])
    await cup.run("VACUUM ANALYZE cup_score")
    path = "/api/cup/v1/leaderboard"

    def random_wallet() -> str:
        return f"0x{random.randint(1, many):040x}"

    paths: dict[str, Callable[[], str]] = {
        "entries": lambda: path,
        "own rank": lambda: f"{path}?wallet={random_wallet()}",
        "own rank of the week": lambda: f"{path}?week={week}&wallet={random_wallet()}",
    }
    return {
        name: await _load(cup, [get(_port(cup), draw()) for _ in range(WARMUP + reads)]) for name, draw in paths.items()
    }


async def _trades(cup: Cup, trades: int) -> LoadResult:
    slugs = [await cup.market() for _ in range(MARKETS)]
    signers = [Signer() for _ in range(TRADERS)]
    async with await connect(cup.database_url) as connection:
        for signer in signers:
            await ledger.claim(connection, signer.address)
    now = datetime.now(UTC)
    signed = (signers[n % TRADERS].trade(slugs[n % MARKETS], "yes", 100, at=now) for n in range(WARMUP + trades))
    requests = [post(_port(cup), "/api/cup/v1/trade", json.dumps(each)) for each in signed]
    freeze_loaded_objects()
    return await _load(cup, requests)


async def _load(cup: Cup, requests: list[bytes]) -> LoadResult:
    """Send the requests to the server from another process, so that this process only serves them. A warm-up comes
    first and is not measured."""
    for part in (requests[:WARMUP], requests[WARMUP:]):
        with fresh_process() as child:
            future = child.submit(load_blocking, _port(cup), part, CONCURRENCY)
            done = await asyncio.wrap_future(future)
    return done


def _port(cup: Cup) -> int:
    return urlsplit(cup.url).port or 0


async def _rounds(database_url: str, bettors: int) -> tuple[float, float]:
    """Return two durations in milliseconds: the slowest settlement of a round, and the slowest bare write of as many
    rows."""
    names = [f"0x{number:040x}" for number in range(1, bettors + 1)]
    took: list[float] = []
    bare: list[float] = []
    async with await connect(database_url, autocommit=True) as connection:
        for name in names:
            await ledger.claim(connection, name)
        now = datetime.now(UTC)
        for _ in range(ROUNDS):
            live = await rounds.open_next(connection, now, 31337, 1, 0)
            assert live is not None
            await _bet(connection, live, names)
            now = live.ends_at
            with timed(took):
                done = await rounds.finish(connection, live.round_no, 2, random.randbytes(32), _frozen_clock(now))
            assert done is not None
            with timed(bare):  # a row for each bet, and an entry and two boards for each wallet
                await connection.execute(_BARE_ROUND.encode(), (bettors * (BETS_EACH + 3),))
    return max(took), max(bare)


def _frozen_clock(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


async def _bet(connection: Connection, live: RouletteRound, names: list[str]) -> None:
    drawn = [(name, key) for name in names for key in random.sample(list(wheel.OUTCOMES), BETS_EACH)]
    values = {
        "round": live.round_no,
        "pool": round_account(live.round_no),
        "stake": wheel.MIN_BET_CENTS,
        "at": live.opens_at,
        "wallets": [name for name, _ in drawn],
        "accounts": [wallet_account(name) for name, _ in drawn],
        "keys": [key for _, key in drawn],
    }
    await connection.execute(_FILL_ROUND.encode(), values)


async def _bare(database_url: str, query: str, times: int) -> float:
    left = iter(range(times))

    async def ask(connection: Connection) -> None:
        for _ in left:
            await connection.execute(query.encode())

    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(await connect(database_url, autocommit=True)) for _ in range(CONCURRENCY)
        ]
        await connections[0].execute("CREATE TABLE IF NOT EXISTS bench_entry (id bigserial PRIMARY KEY, cents bigint)")
        began = time.perf_counter()
        await asyncio.gather(*map(ask, connections))
        return times / (time.perf_counter() - began)
