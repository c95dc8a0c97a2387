"""From where on nothing of a chain is undone any more."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.db.schema.index import chain_cursor


async def read_final_block(connection: AsyncConnection, chain_id: int, finality_blocks: int) -> int:
    """The last block that nothing undoes: the node's finalized one, where it has one, else so many blocks back."""
    query = select(chain_cursor.c.number, chain_cursor.c.finalized_number).where(chain_cursor.c.chain_id == chain_id)
    row = (await connection.execute(query)).one()
    return final_block(row.number, row.finalized_number, finality_blocks)


def final_block(number: int, finalized: int | None, finality_blocks: int) -> int:
    """The same, of the last indexed block and the one the node called final."""
    return int(finalized if finalized is not None and finalized <= number else number - finality_blocks)
