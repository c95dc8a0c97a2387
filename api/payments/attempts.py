"""Attempts to bring a signed bet to the chain: their intents and results, and whether a refused bet may still land."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

from aiohttp import web
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from api.context import Context
from api.database import DATABASE_ERRORS
from api.limits import LimiterFull, caller_ip
from api.payments.authorization import Authorization
from api.problems import Problem
from core.chain import Call
from core.chain.finality import final_block
from core.config import ChainName
from core.db.schema.index import chain_cursor
from core.db.schema.outbox import outbox_intent
from core.log import get_logger
from core.outbox import ENDED, HAS_RESULT, RELAY, Intent, IntentRequest, IntentState, MinedOutcome

log = get_logger(__name__)

READ_SECONDS = 3.0
NOT_FINAL = (
    "This is not final: the bet was sent before, and it may still be taken if a chain reorganization undoes the block "
    "that refused it."
)

# Reads the keys of all intents of a bet so far.
ReadKeys = Callable[[AsyncConnection], Awaitable[list[str]]]


def build_intent(key: str, kind: str, chain_id: int, call: Call, authorization: Authorization) -> IntentRequest:
    """Build the intent that brings an authorization to the chain. The contract takes each authorization once, so it may
    be sent again at any time."""
    return IntentRequest(
        key=key,
        chain_id=chain_id,
        group=RELAY,
        kind=kind,
        to=call.to,
        data=call.data,
        replay_safe=True,
        not_after=authorization.valid_before,
        payer=authorization.payer,
    )


async def read_final_block(connection: AsyncConnection, chain_id: int, finality_blocks: int) -> int:
    """Return the last indexed block that is final."""
    query = select(chain_cursor.c.number, chain_cursor.c.finalized_number).where(chain_cursor.c.chain_id == chain_id)
    row = (await connection.execute(query)).one()
    return final_block(row.number, row.finalized_number, finality_blocks)


def is_retriable(refusal: Problem) -> bool:
    """Return whether the same request may succeed later."""
    return refusal.status >= 500 or refusal.status == 429


def mark_not_final(refusal: Problem, next_step: str) -> Problem:
    """Return the same refusal, marked as not final. `next_step`: a sentence that says where to find the outcome."""
    return type(refusal)(
        refusal.status,
        refusal.code,
        f"{refusal.message} {NOT_FINAL} {next_step}",
        headers=refusal.headers,
        extra={**refusal.extra, "final": False},
    )


class Attempts:
    """One surface's attempts. `next_step`: a sentence that says where to find the outcome after a refusal that is not
    final."""

    def __init__(self, context: Context, chain: ChainName, next_step: str) -> None:
        self._settings = context.settings
        self._places = context.payments
        self._primary = context.primary  # answers about money must include what was just written
        self._watch = context.watch
        self._finality_blocks = context.settings.chain(chain).finality_blocks
        self._next_step = next_step

    @contextlib.contextmanager
    def checking_slot(
        self, request: web.Request, too_many_checked: Callable[[], Problem]
    ) -> Iterator[Callable[[], None]]:
        """Hold a slot among the payments being checked; yield a function that releases it early."""
        try:
            with self._places.place(caller_ip(request, self._settings)) as release:
                yield release
        except LimiterFull:
            raise too_many_checked() from None

    async def result(self, intent: Intent, seconds: float) -> Intent:
        """Wait until the intent has a result or time is up. If the database fails, return the intent as it was."""
        with contextlib.suppress(*DATABASE_ERRORS):
            async with asyncio.timeout(seconds + 1):
                return await self._watch.wait(intent.id, HAS_RESULT, timeout_seconds=seconds)
        return intent

    async def may_land(self, keys: ReadKeys, *, or_in_flight: bool = True) -> bool:
        """Return whether a refused bet may still be mined by one of its attempts so far; True if that is unknown.

        A reorganization may replace the block in which its transaction reverted, until that block is final.
        `or_in_flight`: also count an intent that is pending or mined.
        """
        intent, cursor = outbox_intent.c, chain_cursor.c
        query = select(intent.state, intent.outcome, intent.block_number, cursor.number, cursor.finalized_number)
        query = query.join_from(outbox_intent, chain_cursor, intent.chain_id == cursor.chain_id, isouter=True)
        try:
            async with asyncio.timeout(READ_SECONDS), self._primary.connect() as connection:
                rows = (await connection.execute(query.where(intent.key.in_(await keys(connection))))).all()
        except DATABASE_ERRORS as error:
            log.warning("failed to read whether a refusal is final", action="payments.no_database", why=error)
            return True
        for each in rows:
            if each.outcome in (MinedOutcome.REVERTED, MinedOutcome.CANCELLED):
                if each.number is None or each.block_number > final_block(
                    each.number, each.finalized_number, self._finality_blocks
                ):
                    return True
            elif or_in_flight and (each.outcome is not None or IntentState(each.state) not in ENDED):
                return True
        return False

    async def mark_if_not_final(self, refusal: Problem, keys: ReadKeys) -> Problem:
        """Return the refusal, marked as not final if an attempt may still land."""
        is_for_now = await self.may_land(keys, or_in_flight=not is_retriable(refusal))
        return mark_not_final(refusal, self._next_step) if is_for_now else refusal
