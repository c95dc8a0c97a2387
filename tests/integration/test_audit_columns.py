"""The audit reports every altered column of every table it covers, with table, row and column. The columns come from
the schema, so a new one cannot be forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from core.chain import ChainClient
from core.chain.provider import ChainProvider
from core.db.engine import Connection, ConnectionPool
from core.db.schema.index import chain_block, chain_log
from indexer.audit.rows import AuditStage, Comparison, Snapshot, stages
from indexer.audit.run import compare_page
from indexer.fetch import Fetcher
from indexer.fold.single import APPENDED
from indexer.rebuild import rebuild
from indexer.sources import Sources
from indexer.store import steps
from indexer.store.sums import tables_of
from tests.support.audit_pages import audit_in_pages_of
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_tables import PROJECTIONS, following
from tests.support.index_world import FEEDS, POOL_FEED, Crowd, address_of

AUDITED = (*PROJECTIONS, chain_block, chain_log)
_ALTERED = (
    (JSONB, """'["altered"]'::jsonb"""),
    (sa.SmallInteger, "(coalesce({0}, 0) + 100)::smallint"),
    (sa.Integer, "coalesce({0}, 0) + 1000"),
    (sa.Numeric, "coalesce({0}, 0) + 1000"),
    (sa.Boolean, "NOT {0}"),
    (sa.Text, "coalesce({0}, '') || 'x'"),
    (sa.ARRAY, "{0} || {0}[1]"),
    (
        sa.LargeBinary,
        "CASE WHEN coalesce(length({0}), 0) = 0 THEN decode(repeat('ab', 20), 'hex')"
        " ELSE set_byte({0}, length({0}) - 1, (get_byte({0}, length({0}) - 1) + 1) & 255) END",
    ),
)


@dataclass(frozen=True, slots=True)
class Alteration:
    """A column of a table's first row, changed to another value of its type."""

    table: sa.Table
    column: str

    @property
    def is_key(self) -> bool:
        return self.column in self.table.primary_key.columns

    async def make(self, connection: Connection) -> str:
        """Alter the row in the caller's transaction, without the constraints that would reject it; return the row's key
        as the audit writes it."""
        name, key = self.table.name, ", ".join(f'"{each.name}"' for each in self.table.primary_key.columns)
        checks = await connection.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'c'", (name,)
        )
        for (check,) in await checks.fetchall():
            await connection.execute(f'ALTER TABLE {name} DROP CONSTRAINT "{check}"'.encode())
        first = await (await connection.execute(f"SELECT {key} FROM {name} ORDER BY {key} LIMIT 1".encode())).fetchone()
        assert first is not None, f"{name} has no row: it needs one to be altered"
        kind: object = self.table.columns[self.column].type
        kind = kind.impl if isinstance(kind, sa.types.TypeDecorator) else kind
        value = next(text for each, text in _ALTERED if isinstance(kind, each)).format(f'"{self.column}"')
        places = ", ".join(["%s"] * len(first))
        done = await connection.execute(
            f'UPDATE {name} SET "{self.column}" = {value} WHERE ({key}) = ({places})'.encode(), first
        )
        assert done.rowcount == 1
        return "/".join(f"0x{bytes(each).hex()}" if isinstance(each, bytes) else str(each) for each in first)


def alterations(tables: Iterable[sa.Table] = AUDITED) -> Iterator[Alteration]:
    """Yield one alteration per column and table; the database keeps a raw log in its chain's partition."""
    for table in tables:
        for column in table.columns:
            if table is not chain_log or column.name != "chain_id":
                yield Alteration(table, column.name)


Named = tuple[str, str, str]
SUMS = tables_of(world_sources())
"""Compared only if the rows that they sum agree with their logs."""


@dataclass(frozen=True)
class Index:
    """An index of a chain in memory, and its audit without the contracts' views, which such a chain does not have."""

    node: SimNode
    sources: Sources
    pool: ConnectionPool

    async def audit(self, connection: Connection, some: Sequence[AuditStage] = ()) -> Comparison:
        head, fetcher = self.node.chain.head.header, Fetcher(self.node, self.sources)
        comparison = Comparison(block=head.number)
        unasked = ChainClient(ChainProvider(("http://127.0.0.1:9",), chain_id=self.sources.chain_id))
        snapshot = Snapshot(
            connection,
            unasked,
            fetcher,
            self.sources,
            {},
            head.number,
            bytes.fromhex(head.hash[2:]),
            self.node.chain.moment(head.number),
            comparison,
        )
        for stage in some or stages():
            place = await compare_page(stage, snapshot, None)
            while place is not None:
                place = await compare_page(stage, snapshot, place)
        return comparison


def named(found: Comparison) -> set[Named]:
    return {(each["what"], each["key"], each["field"]) for each in found.detail}


@pytest.fixture
async def index(fresh_database_url: str) -> AsyncIterator[Index]:
    simulated, crowd = SimChain(), Crowd("audited columns")
    seldom = [
        crowd.tx("cancel", address_of("canceling"), bytes(32)),
        crowd.tx("set_opener", address_of("opener"), True),
    ]
    seldom += [crowd.tx("guardian", address_of("guardian"), True), crowd.tx("set_bounds", 300)]
    seldom += [
        crowd.tx("agent_pause", address_of("guardian"), True),
        crowd.tx("agent_pause", address_of("guardian"), False),
    ]
    seldom += [crowd.tx("set_agent_feed", FEEDS[0], True, 60), crowd.tx("set_lister", address_of("lister"), True)]
    simulated.mine([*seldom, crowd.tx("round", POOL_FEED, 7), crowd.tx("set_feed", FEEDS[0], "NVDA", True)])
    for _ in range(18):
        simulated.mine([crowd.next(simulated.head.world) for _ in range(5)])
    for _ in range(110):
        simulated.mine([])  # until every market may end
    world = simulated.head.world
    simulated.mine([crowd.tx("settle", each, each % 2) for each in world.ledger.markets])
    simulated.mine([crowd.tx("close", key, 0) for key in world.agent])
    simulated.mine([crowd.tx("deliver", tuple(world.ledger.positions), ()), crowd.tx("pay", tuple(world.stakes), ())])
    simulated.mine([crowd.tx("sweep"), crowd.tx("agent_sweep")])
    node, sources = SimNode(simulated), world_sources()
    async with following(fresh_database_url, node, sources) as (follower, pool):
        await follower.catch_up()
        yield Index(node, sources, pool)


@pytest.mark.timeout(900)
async def test_each_altered_column_is_named_with_its_table_and_row(index: Index) -> None:
    async with index.pool.connection() as connection:
        clean = await index.audit(connection)
    assert clean.mismatches == 0, clean.detail
    raw, projected, summed = stages()
    passed_over = []
    folded = [table for table in PROJECTIONS if table not in (*APPENDED, *SUMS)]
    for stage, tables in (
        (raw, [chain_log]),
        (raw, [chain_block, *APPENDED]),
        (projected, folded),
        (summed, SUMS),
    ):
        columns = [list(alterations([table])) for table in tables]
        for some in zip_longest(*columns):  # a column of each table
            async with index.pool.connection() as connection, connection.transaction(force_rollback=True):
                altered = [each for each in some if each is not None]
                keys = [await each.make(connection) for each in altered]
                found = named(await index.audit(connection, [stage]))
            for each, key in zip(altered, keys, strict=True):
                # A row in another block is missing in its own: rows are compared a range of blocks at a time.
                is_elsewhere = each.is_key or each.column == "block_number"
                if (each.table.name, key, "row" if is_elsewhere else each.column) not in found:
                    passed_over.append(f"{each.table.name}.{each.column}")
    assert not passed_over, "\n".join(passed_over)


async def test_only_the_altered_column_of_a_projection_differs(index: Index) -> None:
    """The operator reads what was changed, not its consequences."""
    alteration = next(each for each in alterations() if (each.table.name, each.column) == ("stock_market", "outcome"))
    async with index.pool.connection() as connection, connection.transaction(force_rollback=True):
        await alteration.make(connection)
        found = await index.audit(connection)
    assert [(each["what"], each["field"]) for each in found.detail] == [("stock_market", "outcome")]


async def test_pages_of_a_few_rows_find_what_one_page_finds(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [table for table in AUDITED if table is not chain_log and table not in SUMS]
    async with index.pool.connection() as connection, connection.transaction(force_rollback=True):
        for table in tables:
            await Alteration(table, table.columns.keys()[-1]).make(connection)
        large = await index.audit(connection)
        audit_in_pages_of(3, monkeypatch)
        monkeypatch.setattr(steps, "REFOLD_BATCH", 3)
        small = await index.audit(connection)
    assert sorted(map(str, small.detail)) == sorted(map(str, large.detail))
    assert {each["what"] for each in large.detail} == {table.name for table in tables}


async def test_a_missing_row_is_named(index: Index) -> None:
    for table in AUDITED:
        if table is chain_log:
            continue  # the others are made from its rows: see below
        keys = ", ".join(f'"{each.name}"' for each in table.primary_key.columns)
        async with index.pool.connection() as connection, connection.transaction(force_rollback=True):
            first = f"SELECT {keys} FROM {table.name} ORDER BY {keys} LIMIT 1"
            gone = await connection.execute(f"DELETE FROM {table.name} WHERE ({keys}) = ({first})".encode())
            assert gone.rowcount == 1
            found = await index.audit(connection)
        assert (table.name, "row", "missing", "there") in {
            (each["what"], each["field"], each["ours"], each["chain"]) for each in found.detail
        }, table.name


async def test_a_missing_and_an_extra_raw_log_are_named(index: Index) -> None:
    for change, ours in (
        ("DELETE FROM chain_log WHERE ctid = (SELECT ctid FROM chain_log ORDER BY 1 LIMIT 1)", "missing"),
        (
            "INSERT INTO chain_log SELECT chain_id, block_number, log_index + 500, tx_hash, address, topics, data,"
            " entity FROM chain_log ORDER BY block_number LIMIT 1",
            "there",
        ),
    ):
        async with index.pool.connection() as connection, connection.transaction(force_rollback=True):
            assert (await connection.execute(change.encode())).rowcount == 1
            found = await index.audit(connection)
        assert ("chain_log", "row", ours) in {(each["what"], each["field"], each["ours"]) for each in found.detail}


async def test_a_rebuild_repairs_every_table(index: Index) -> None:
    tables = [table for table in AUDITED if table not in (chain_block, chain_log)]  # a rebuild reads these
    async with index.pool.connection() as connection:
        for table in tables:
            await Alteration(table, table.columns.keys()[-1]).make(connection)
        assert (await index.audit(connection)).mismatches == len([each for each in tables if each not in SUMS])
    await rebuild(index.pool, index.sources)
    async with index.pool.connection() as connection:
        found = await index.audit(connection)
    assert found.mismatches == 0, found.detail
