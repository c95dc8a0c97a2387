"""Raw logs: written and read back, in partitions that are made ahead and rewound across their borders."""

from __future__ import annotations

import json
import random
from typing import Any

from core.contracts.events import Role, layouts_of
from core.contracts.events.shared import PAUSER
from core.db.engine import Connection, connect
from core.db.migrate import migrate
from indexer.fold.rows import BlockInfo, LogRecord, Page
from indexer.sources import Sources
from indexer.store.cursor import BLOCKS, make_ranges, open_cursor, range_name
from indexer.store.steps import append, rewind
from indexer.store.tables import AT_ONCE, write_logs

CHAIN = 8453
START = BLOCKS - 10
SOURCES = Sources("base", CHAIN, START, "op-stack", {Role.PAUSER: b"\x01" * 20}, None)


def _block(number: int) -> BlockInfo:
    return BlockInfo(number, number.to_bytes(32), 1_600_000_000 + number, number)


PAUSED = next(each for each in layouts_of(Role.PAUSER).values() if each.name == "PausedBy")


def _log(number: int) -> LogRecord:
    topics = PAUSED.topic + bytes(PAUSED.topics_bytes - 32)
    data = bytes(PAUSED.data_bytes or 0)
    return LogRecord(number, 0, 1, b"\x02" * 32, b"\x01" * 20, topics, data, PAUSER, PAUSED.decode(topics, data))


def _page(first: int, last: int) -> Page:
    blocks = tuple(_block(number) for number in range(first, last + 1))
    return Page(first, blocks[-1], blocks, [_log(number) for number in range(first, last + 1)])


async def _ranges(connection: Connection) -> list[str]:
    rows = await connection.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'chain_log'::regclass ORDER BY 1"
    )
    return [name for (name,) in await rows.fetchall()]


async def _blocks_of(connection: Connection, table: str) -> list[int]:
    rows = await connection.execute(f"SELECT block_number FROM {table} ORDER BY 1".encode())
    return [number for (number,) in await rows.fetchall()]


async def test_the_next_partition_exists_before_the_cursor_reaches_it(fresh_database_url: str) -> None:
    migrate(fresh_database_url)
    async with await connect(fresh_database_url) as connection:
        for _ in range(2):  # opened again it makes none twice
            cursor = await open_cursor(connection, SOURCES)
        assert await _ranges(connection) == [range_name(CHAIN, 0), range_name(CHAIN, 1)]
        cursor = await append(connection, SOURCES, cursor, [_page(START, BLOCKS - 1)])
        assert len(await _ranges(connection)) == 2
        await append(connection, SOURCES, cursor, [_page(BLOCKS, BLOCKS + 1)])
        assert await _ranges(connection) == [range_name(CHAIN, number) for number in range(3)]
        assert await _blocks_of(connection, range_name(CHAIN, 1)) == [BLOCKS, BLOCKS + 1]


async def test_a_partition_is_made_while_another_session_reads_logs(fresh_database_url: str) -> None:
    """An audit may read for hours; a new block does not wait for it."""
    migrate(fresh_database_url)
    async with await connect(fresh_database_url) as connection, await connect(fresh_database_url) as reader:
        cursor = await open_cursor(connection, SOURCES)
        await connection.execute("SET lock_timeout = '5s'")
        async with reader.transaction():
            await reader.execute("SELECT count(*) FROM chain_log")
            await append(connection, SOURCES, cursor, [_page(START, BLOCKS + 1)])
            assert len(await _ranges(connection)) == 3


async def test_a_reorganization_removes_logs_on_both_sides_of_a_border(fresh_database_url: str) -> None:
    migrate(fresh_database_url)
    async with await connect(fresh_database_url) as connection:
        cursor = await open_cursor(connection, SOURCES)
        cursor = await append(connection, SOURCES, cursor, [_page(START, BLOCKS + 5)])
        cursor = await rewind(connection, SOURCES, cursor, _block(BLOCKS - 3))
        assert await _blocks_of(connection, "chain_log") == list(range(START, BLOCKS - 2))
        await append(connection, SOURCES, cursor, [_page(BLOCKS - 2, BLOCKS + 1)])
        assert await _blocks_of(connection, "chain_log") == list(range(START, BLOCKS + 2))


async def test_a_query_for_blocks_reads_only_their_partition(fresh_database_url: str) -> None:
    migrate(fresh_database_url)
    async with await connect(fresh_database_url) as connection:
        cursor = await open_cursor(connection, SOURCES)
        await append(connection, SOURCES, cursor, [_page(START, BLOCKS + 5)])
        for query in (
            f"SELECT FROM chain_log WHERE chain_id = {CHAIN} AND block_number BETWEEN {BLOCKS + 1} AND {BLOCKS + 3}",
            f"DELETE FROM chain_log WHERE chain_id = {CHAIN} AND block_number BETWEEN {BLOCKS + 1} AND {BLOCKS + 3}",
        ):
            rows = await connection.execute(f"EXPLAIN (FORMAT JSON) {query}".encode())
            row = await rows.fetchone()
            assert row is not None
            read = _relations(row[0] if not isinstance(row[0], str) else json.loads(row[0]))
            assert {each for each in read if each != "chain_log"} == {range_name(CHAIN, 1)}


def _relations(plan: Any) -> set[str]:
    if isinstance(plan, list):
        return set().union(*(_relations(each) for each in plan))
    if not isinstance(plan, dict):
        return set()
    found = set().union(*(_relations(each) for each in plan.values() if isinstance(each, list | dict)), set())
    return found | ({plan["Relation Name"]} if "Relation Name" in plan else set())


async def test_logs_are_read_back_as_written(fresh_database_url: str) -> None:
    migrate(fresh_database_url)
    rng = random.Random(1)
    written = [
        LogRecord(
            2**40 + at // 7,
            at,
            0,
            rng.randbytes(32),
            rng.randbytes(20),
            rng.randbytes(32 * rng.randint(1, 4)),
            rng.randbytes(rng.choice((0, 1, 32, 5_000))),
            rng.choice((None, b"", b"m" + rng.randbytes(8))),
            None,
        )
        for at in range(2 * AT_ONCE + 1)
    ]
    connection = await connect(fresh_database_url)
    async with connection:
        await make_ranges(connection, 8453, 2**40, written[-1].block)
        await write_logs(connection, 8453, written)
        await write_logs(connection, 8453, [])
        rows = await connection.execute(
            "SELECT chain_id, block_number, log_index, tx_hash, address, topics, data, entity FROM chain_log"
            " ORDER BY block_number, log_index"
        )
        found = await rows.fetchall()
    assert found == [
        (8453, log.block, log.index, log.tx, log.address, log.topics, log.data, log.entity) for log in written
    ]
