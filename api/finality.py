"""Up to where the index is final, and what is said of a refused bet until then."""

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
    """The last indexed block that nothing undoes."""
    query = select(chain_cursor.c.number, chain_cursor.c.finalized_number).where(chain_cursor.c.chain_id == chain_id)
    row = (await connection.execute(query)).one()
    return final_block(row.number, row.finalized_number, finality_blocks)


async def may_land(
    connection: AsyncConnection, keys: Sequence[str], finality_blocks: int, *, or_is_on_its_way: bool
) -> bool:
    """Whether a bet that is being refused may be taken after all. `keys`: of every intent that was to bring it to the
    chain. What was signed for one that a block refused may be taken by the block that replaces it, as long as that is
    not final. `or_is_on_its_way`: it counts, too, that one is sent and not mined, or that a block has it."""
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
    """The refusal of a bet that may be taken after all, of its own kind. `then`: what tells."""
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
