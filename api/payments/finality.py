"""The last final block of the index, and how a refusal is worded until its block is final."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from api.http.problem import Problem
from core.chain.finality import final_block
from core.db.schema.index import chain_cursor
from core.db.schema.outbox import outbox_intent
from core.outbox import ENDED, IntentState, MinedOutcome


async def read_final_block(connection: AsyncConnection, chain_id: int, finality_blocks: int) -> int:
    """Return the last indexed block that is final."""
    query = select(chain_cursor.c.number, chain_cursor.c.finalized_number).where(chain_cursor.c.chain_id == chain_id)
    row = (await connection.execute(query)).one()
    return final_block(row.number, row.finalized_number, finality_blocks)


async def may_land(
    connection: AsyncConnection, keys: Sequence[str], finality_blocks: int, *, or_is_on_its_way: bool
) -> bool:
    """Return whether a refused bet may still be mined. `keys`: those of all its intents.

    A reorganization may replace the block in which its transaction reverted, until that block is final.
    `or_is_on_its_way`: also count an intent that is pending or mined.
    """
    intent, cursor = outbox_intent.c, chain_cursor.c
    query = (
        select(intent.state, intent.outcome, intent.block_number, cursor.number, cursor.finalized_number)
        .join_from(outbox_intent, chain_cursor, intent.chain_id == cursor.chain_id, isouter=True)
        .where(intent.key.in_(keys))
    )
    for each in await connection.execute(query):
        if each.outcome in (MinedOutcome.REVERTED, MinedOutcome.CANCELLED):
            if each.number is None or each.block_number > final_block(
                each.number, each.finalized_number, finality_blocks
            ):
                return True
        elif or_is_on_its_way and (each.outcome is not None or IntentState(each.state) not in ENDED):
            return True
    return False


def for_now(refusal: Problem, then: str) -> Problem:
    """Return the same refusal, marked as not final. `then`: a sentence that says where to look."""
    return type(refusal)(
        refusal.status,
        refusal.code,
        f"{refusal.message} {FOR_NOW} {then}",
        headers=refusal.headers,
        extra={**refusal.extra, "final": False},
    )


FOR_NOW = (
    "This is not final: the bet was sent before, and if a reorganization of the chain undoes the block that refused "
    "it, it may still be taken."
)
