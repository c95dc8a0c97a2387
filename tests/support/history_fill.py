"""A database with years of markets, filled by COPY and SQL as the indexer would have left it. Every agent market has
the id that follows from its specification, so the service takes it for its own. Stakes and positions are spread evenly
over the markets and wallets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from eth_utils.address import to_checksum_address
from psycopg.types.json import Jsonb

from core.agent.bet import market_key
from core.agent.document import Specification, draft_document
from core.contracts.deployments import ContractInfo, Deployment, Token, write_deployment
from core.contracts.events import Role
from core.contracts.feeds import AgentFeed, PublishedFeed
from core.contracts.statuses import AgentMarketStatus, Family, MarketKind, StakeStatus, StockReason
from core.db.channels import CHAIN_INDEXED, IndexStep
from core.db.engine import conninfo, make_pool
from core.money import USD
from indexer.sources import Sources
from indexer.store import sums

BASE_CHAIN, STOCK_CHAIN = 8453, 46_630
TOKENS = tuple(f"T{number:02}" for number in range(1, 21))
TICKERS = ("NVDA", "TSLA", "COIN")
BLOCK_SECONDS = 2
EVERY_SECONDS = 10_800
"""Between the ends of two agent markets on one token, and of two stock markets."""
OPEN_SECONDS = 86_400
WEIGHT = 100 * USD


BOTH = Sources("both", 1, 1, "op-stack", {Role.SETTLER: bytes(20), Role.WALLET: bytes(20)}, None)


@dataclass(frozen=True, slots=True)
class HistorySize:
    """How large the history is. `open_each`: unsettled markets of either kind; `stakes` and `positions`: in each
    market."""

    stock: int
    agent: int
    stakes: int = 5
    positions: int = 3
    wallets: int = 500
    open_each: int = 40

    @property
    def rows(self) -> int:
        return self.stock * (1 + self.positions) + self.agent * (1 + self.stakes)


def feed_of(number: int) -> bytes:
    return bytes.fromhex("fe" + f"{number:038x}")


def wallet_of(number: int) -> str:
    return "0x" + f"{number + 1:040x}"


def network(
    name: str, chain_id: int, token: str, contracts: Mapping[str, str], feeds: Sequence[AgentFeed] = ()
) -> Deployment:
    address = to_checksum_address("0x" + "dd" * 20)
    dollar = Token(symbol=token, address=address, decimals=6, domain_name=token, domain_version="2")
    placed = {each: ContractInfo(address=to_checksum_address(at), role="A contract.") for each, at in contracts.items()}
    return Deployment(
        network=name,
        name="bench",
        chain_id=chain_id,
        kind="local",
        status="deployed" if contracts else "not-deployed",
        start_block=1,
        tokens={token: dollar},
        contracts=placed,
        feeds=tuple(feeds),
    )


def write_deployments(folder: Path) -> None:
    stock = ("VestedMarkets", "RoundResolver", "MarketLister")
    contracts = {name: f"0x{0xA0 + at:040x}" for at, name in enumerate(stock)}
    write_deployment(network("stock", STOCK_CHAIN, "USDG", contracts), folder / "stock.json")
    feeds = [
        PublishedFeed(
            kind="published",
            key=f"{symbol}/market_cap",
            address=to_checksum_address(feed_of(number)),
            memory_seconds=600,
            max_age_seconds=600,
            pot_cap_units=10_000 * USD,
            feed_cap_units=640_000 * USD,
            max_lag_seconds=600,
        )
        for number, symbol in enumerate(TOKENS)
    ]
    write_deployment(network("base", BASE_CHAIN, "USDC", {}, feeds), folder / "base.json")


def fill(url: str, size: HistorySize) -> int:
    """Fill everything in one transaction, then update the planner's statistics. Return the time up to which it is
    filled, in Unix seconds."""
    now = int(time.time())
    with psycopg.connect(conninfo(url)) as connection:
        _cursors(connection, now)
        _agent(connection, size, now)
        _stock(connection, size, now)
        _rounds(connection, size, now)
    asyncio.run(sum_all(url))
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return now


async def sum_all(url: str) -> None:
    """Sum everything stored of both sides, and mark every chain as summed."""
    async with make_pool(url, size=1) as pool, pool.connection() as connection:
        await sums.fill(connection, BOTH)
        await connection.execute("UPDATE chain_cursor SET summed = true")


def next_block(connection: psycopg.Connection[object], chain_id: int, change: str | None = None) -> int:
    """Add a block with this change to the tables, and notify readers as the indexer does. Return its number."""
    with connection.transaction():
        if change is not None:
            connection.execute(change.encode())
        row = connection.execute(
            "UPDATE chain_cursor SET number = number + 1, hash = sha256(hash), head_number = number + 1,"
            " head_seen_at = now(), block_time = greatest(block_time, extract(epoch FROM now())::bigint)"
            " WHERE chain_id = %s RETURNING number",
            (chain_id,),
        ).fetchone()
        assert isinstance(row, tuple)
        connection.execute(
            "SELECT pg_notify(%s, %s)", (CHAIN_INDEXED.name, CHAIN_INDEXED.write(IndexStep(chain_id, row[0])))
        )
    return int(row[0])


def _cursors(connection: psycopg.Connection[tuple[object, ...]], now: int) -> None:
    for chain_id, name in ((BASE_CHAIN, "base"), (STOCK_CHAIN, "stock")):
        connection.execute(
            "INSERT INTO chain_cursor (chain_id, name, start_block, number, hash, block_time, l1_block_number,"
            " head_number, head_time, head_seen_at, state, sources)"
            " VALUES (%s, %s, 1, %s, %s, %s, %s, %s, %s, now(), 'tail', '{}')",
            (chain_id, name, now // BLOCK_SECONDS, bytes(32), now, now // BLOCK_SECONDS, now // BLOCK_SECONDS, now),
        )
    connection.execute(
        "INSERT INTO agent_venue (chain_id, stakes_paused, fees_swept) VALUES (%s, false, 0)", (BASE_CHAIN,)
    )
    connection.execute(
        "INSERT INTO stock_venue (chain_id, entries_paused, fees_swept) VALUES (%s, false, 0)", (STOCK_CHAIN,)
    )


# ---------------------------------------------------------------- agent markets

_AGENT_COLUMNS = (
    "market_id, index, kind, feed, target, bounds, early_resolvable, opens_at, closes_at, start_at, ends_at, outcomes,"
    " weights, fee_bps, pot_cap, published, max_age, early_from, settles_after, voids_after, lister, metadata,"
    " document, slug, staked, net_pool, stakes, late_payments, paid_out, paid_shares, given_back, unpaid, status,"
    " winner, end_answer, end_updated_at, closed_block, closed_at, closed_tx, listed_block,"
    " listed_log_index, listed_at, listed_tx, updated_block"
)


def agent_names(size: HistorySize, now: int) -> Iterator[tuple[int, str, Specification, bool]]:
    """Yield each market's number from 1, its id, its specification, and whether it is settled; the oldest first."""
    for number in range(1, size.agent + size.open_each + 1):
        feed = number % len(TOKENS)
        settled = number <= size.agent
        ago = (size.agent - number) // len(TOKENS) + 1
        ahead = (number - size.agent) // len(TOKENS)
        ends = now - ago * EVERY_SECONDS if settled else now + OPEN_SECONDS + ahead * EVERY_SECONDS
        spec = Specification(
            kind=MarketKind.THRESHOLD,
            feed=feed_of(feed),
            target=100 * 10**8 * USD,
            bounds=(),
            early_resolvable=False,
            published=True,
            max_age=600,
            opens_at=ends - 7_200 if settled else now - 3_600,
            closes_at=ends - 600,
            start_at=0,
            ends_at=ends,
            early_from=0,
            settles_after=ends + 60,
            voids_after=ends + 7 * 86_400,
        )
        yield number, draft_document(spec, f"{TOKENS[feed]}/market_cap").id, spec, settled


def _agent(connection: psycopg.Connection[tuple[object, ...]], size: HistorySize, now: int) -> None:
    staked, net = size.stakes * 2 * USD, size.stakes * 2 * USD * 98 // 100
    with connection.cursor().copy(f"COPY agent_market ({_AGENT_COLUMNS}) FROM STDIN".encode()) as copy:
        for number, name, spec, settled in agent_names(size, now):
            key = market_key(name)
            closed = spec.ends_at + 60
            end = (
                int(AgentMarketStatus.RESOLVED),
                number % 2,
                spec.target,
                spec.ends_at,
                closed // BLOCK_SECONDS,
                closed,
                key,
            )
            document = {"id": name, "links": {}, "series": ""}
            copy.write_row(
                (
                    *(key, number, int(spec.kind), spec.feed, spec.target, [], False, spec.opens_at, spec.closes_at),
                    *(0, spec.ends_at, 2, [WEIGHT, WEIGHT], 200, 10_000 * USD, True, 600, 0, spec.settles_after),
                    *(spec.voids_after, bytes(20), "{}", Jsonb(document), name, staked, net, size.stakes, 0),
                    *((net, size.stakes * 4 * USD, 0, 0) if settled else (0, 0, 0, 0)),
                    *(end if settled else (int(AgentMarketStatus.OPEN), None, None, None, None, None, None)),
                    *(spec.opens_at // BLOCK_SECONDS, number % 100, spec.opens_at, key),
                    (closed if settled else spec.opens_at + size.stakes) // BLOCK_SECONDS,
                )
            )
    connection.execute(
        "INSERT INTO agent_outcome SELECT market_id, o, n * 1960000, n * 4000000, n * 2040000, n"
        " FROM agent_market, generate_series(0, 1) o, LATERAL (SELECT (stakes + 1 - o) / 2 AS n) x"
    )
    connection.execute(
        "INSERT INTO agent_stake (stake_id, market_id, ordinal, wallet, outcome, amount, fee, shares, price_before,"
        " price_after, nonce, bet_hash, idem_hash, status, staked_block, staked_log_index, staked_at, staked_tx,"
        " paid_amount, paid_block, paid_at, paid_tx, failed_payouts)"
        " SELECT (m.index::bigint << 32) | n, m.market_id, n, decode(lpad(to_hex((m.index + n) %% %(wallets)s + 1), 40,"
        " '0'), 'hex'), n %% 2, 2000000, 40000, 4000000, 500000000000000000, 500000000000000000 + n, h, h, h,"
        " CASE WHEN n %% 2 = m.winner THEN %(paid)s::smallint ELSE %(unpaid)s::smallint END,"
        " (m.opens_at + n) / 2, m.index %% 100, m.opens_at + n, h,"
        " CASE WHEN n %% 2 = m.winner THEN 3900000 ELSE 0 END, CASE WHEN n %% 2 = m.winner THEN m.closed_block END,"
        " CASE WHEN n %% 2 = m.winner THEN m.closed_at + 5 END, CASE WHEN n %% 2 = m.winner THEN h END, 0"
        " FROM agent_market m, generate_series(0, %(stakes)s - 1) n,"
        " LATERAL (SELECT sha256(m.market_id || int4send(n)) AS h) x",
        {
            "wallets": size.wallets,
            "stakes": size.stakes,
            "paid": int(StakeStatus.PAID),
            "unpaid": int(StakeStatus.IN_BOOK),
        },
    )


# ---------------------------------------------------------------- stock markets


def _stock(connection: psycopg.Connection[tuple[object, ...]], size: HistorySize, now: int) -> None:
    asked = {
        "all": size.stock + size.open_each,
        "settled": size.stock,
        "now": now,
        "every": EVERY_SECONDS,
        "ahead": OPEN_SECONDS,
        "positions": size.positions,
        "wallets": size.wallets,
        "tickers": list(TICKERS),
        "drill": int(Family.DRILL),
        "daily": int(Family.DAILY),
        "by_rounds": int(StockReason.ROUNDS),
    }
    connection.execute(
        "INSERT INTO stock_market (market_id, opener, resolver, freeze_time, void_delay, fee_bps, kappa, seed_per_leg,"
        " min_entry, max_entry, side_cap, principal_up, principal_down, acc_up, acc_down, pending_up, pending_down,"
        " winner, voided, paid_principal, paid, fees, refused, refunded, residue_claimed, positions, vintages,"
        " created_block, created_at, created_tx, closed_block, closed_at, closed_tx, spec_id, feed, ticker, family,"
        " stock_token, strike_time, final_time, max_strike_age, max_final_age, outcome, reason, strike_round,"
        " strike_answer, strike_round_at, final_round, final_answer, final_round_at, updated_block)"
        " SELECT i, a, a, f, 86400, 200, 1000000, 10000000, 1000000, 100000000, 2500000000, 40000000, 40000000,"
        " 0, 0, 0, 0,"
        " CASE WHEN s THEN i %% 2 END, false, CASE WHEN s THEN 40000000 ELSE 0 END,"
        " CASE WHEN s THEN 78000000 ELSE 0 END, CASE WHEN s THEN 2000000 ELSE 0 END, 0, 0, 0, 2 + %(positions)s, 1,"
        " o / 2, o, h,"
        " CASE WHEN s THEN (f + 60) / 2 END, CASE WHEN s THEN f + 60 END, CASE WHEN s THEN h END, h, a,"
        " (%(tickers)s::text[])[i %% cardinality(%(tickers)s::text[]) + 1],"
        " CASE WHEN i %% 50 = 0 THEN %(drill)s::smallint ELSE %(daily)s::smallint END,"
        " a, o, f, 3600, 3600,"
        " CASE WHEN s THEN i %% 2 END, CASE WHEN s THEN %(by_rounds)s::smallint END, CASE WHEN s THEN 1 END,"
        " CASE WHEN s THEN 10000000000 END,"
        " CASE WHEN s THEN o END, CASE WHEN s THEN 2 END, CASE WHEN s THEN 10100000000 END, CASE WHEN s THEN f END,"
        " (CASE WHEN s THEN f + 60 ELSE o + 60 END) / 2"
        " FROM generate_series(1, %(all)s) i, LATERAL (SELECT i <= %(settled)s AS s, sha256(int4send(i)) AS h,"
        " decode(repeat('ab', 20), 'hex') AS a) x, LATERAL (SELECT CASE WHEN s"
        " THEN %(now)s::bigint - (%(settled)s - i + 1) * %(every)s"
        " ELSE %(now)s + %(ahead)s + (i - %(settled)s) * %(every)s END AS f) y,"
        " LATERAL (SELECT f - CASE WHEN s THEN 7200 ELSE 90000 END AS o) z",
        asked,
    )
    connection.execute(
        "INSERT INTO stock_vintage SELECT market_id, v, 20000000, 20000000, 20000000, 20000000, 0, 0"
        " FROM stock_market, LATERAL unnest(ARRAY[0, created_block + 1]) v"
    )
    connection.execute(
        "INSERT INTO stock_position (position_id, market_id, ordinal, owner, entered_by, outcome, offered, vintage,"
        " offered_before, claimed, refunded, payout, fee, refund, entered_block, entered_at, entry_tx, payout_at,"
        " payout_tx, failed_deliveries)"
        " SELECT (market_id << 32) | n, market_id, n, wallet, wallet, n %% 2, 5000000,"
        " CASE WHEN n < 2 THEN 0 ELSE created_block + 1 END, 0, coalesce(n %% 2 = winner, false), false,"
        " CASE WHEN n %% 2 = winner THEN 9000000 ELSE 0 END, 0, 0, created_block + n, created_at + n, created_tx,"
        " CASE WHEN n %% 2 = winner THEN closed_at END, CASE WHEN n %% 2 = winner THEN closed_tx END, 0"
        " FROM stock_market, generate_series(0, 1 + %(positions)s) n, LATERAL (SELECT CASE WHEN n < 2 THEN opener"
        " ELSE decode(lpad(to_hex((market_id + n) %% %(wallets)s + 1), 40, '0'), 'hex') END AS wallet) w",
        asked,
    )


def _rounds(connection: psycopg.Connection[tuple[object, ...]], size: HistorySize, now: int) -> None:
    connection.execute(
        "INSERT INTO oracle_round SELECT %(chain)s, (t - 1) / 2, f, decode('fe' || lpad(to_hex(f), 38, '0'), 'hex'),"
        " t, 9000000000000000, t, t, sha256(int8send(t)) FROM generate_series(0, %(feeds)s - 1) f,"
        " generate_series(%(first)s::bigint, %(now)s, %(every)s) t",
        {
            "chain": BASE_CHAIN,
            "feeds": len(TOKENS),
            "first": now - (size.agent // len(TOKENS) + 2) * EVERY_SECONDS,
            "now": now,
            "every": EVERY_SECONDS,
        },
    )
