"""The totals that the database keeps against sums of the rows they are of.

The triggers that keep them sum the stored rows once more, into empty tables: what is added to a total is said in one
place.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from psycopg.sql import SQL, Composable, Identifier
from sqlalchemy import Table

from core.contracts.events import Role
from core.db.schema import index_agent, index_stock
from core.db.schema.totals import totals_of
from indexer.audit.folded import EVERY, Rows, compare_rows, empty_tables
from indexer.audit.pages import AuditStage, Scene, whole
from indexer.store import holdings

ROWS_AT_ONCE = 20_000

_SUMMING = b"""
SELECT c.relname, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'public'::regnamespace AND t.tgnewtable IS NOT NULL AND c.relname = ANY(%s) ORDER BY t.tgname
"""


def stages(roles: Sequence[Role]) -> list[AuditStage]:
    """The stages for the contracts that a chain has."""
    sides = ((Role.SETTLER, "stock", index_stock), (Role.WALLET, "agent", index_agent))
    return [_totals(name, module) for role, name, module in sides if role in roles] + [whole("holdings", _holdings)]


async def _holdings(scene: Scene) -> None:
    """Sum every position anew. Before history is read to its end nothing is summed."""
    (summed,) = await scene.row(b"SELECT summed FROM chain_cursor WHERE chain_id = %s", (scene.sources.chain_id,))
    if summed:
        tables = [side.holding for side in holdings.sides_of(scene.sources)]
        async with empty_tables(scene.connection, tables):
            await holdings.fill(scene.connection, scene.sources)
            for table in tables:
                await compare_rows(scene, Rows(table, EVERY))


def _totals(side: str, projections: ModuleType) -> AuditStage:
    kept = totals_of(side)
    rows = [each for each in vars(projections).values() if isinstance(each, Table)]

    async def compare(scene: Scene) -> None:
        triggers = await scene.rows(_SUMMING, ([table.name for table in (*rows, *kept)],))
        summed = [table for table in rows if table.name in {name for name, _ in triggers}]
        async with empty_tables(scene.connection, [*summed, *kept]):
            for name, definition in triggers:
                await scene.connection.execute(
                    definition.replace(f" ON public.{name} ", f" ON pg_temp.{name} ").encode()
                )
            for table in summed:
                await _sum(scene, table)
            for table in kept:
                await compare_rows(scene, Rows(table, EVERY))

    return whole(f"{side} totals", compare)


async def _sum(scene: Scene, table: Table) -> None:
    """Lets the triggers see every stored row, a few at a time."""
    name = Identifier(table.name)
    key = SQL(", ").join(Identifier(column.name) for column in table.primary_key.columns)
    order = SQL(" ORDER BY {} ").format(key)
    after: Composable = EVERY
    values: Sequence[object] = ()
    while True:
        done = await scene.connection.execute(
            SQL("INSERT INTO pg_temp.{0} SELECT * FROM public.{0} WHERE {1}{2}LIMIT {3}").format(
                name, after, order, ROWS_AT_ONCE
            ),
            values,
        )
        if done.rowcount < ROWS_AT_ONCE:
            return
        newest = await scene.connection.execute(
            SQL("SELECT {0} FROM pg_temp.{1} ORDER BY ({0}) DESC LIMIT 1").format(key, name)
        )
        row = await newest.fetchone()
        assert row is not None
        values = row
        after = SQL("({}) > ({})").format(key, SQL(", ").join([SQL("%s")] * len(row)))
        await scene.connection.execute(SQL("TRUNCATE pg_temp.{}").format(name))
