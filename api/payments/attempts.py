"""Attempts to bring a signed bet to the chain: the intent each asks for, how it ends, whether it still may land, and
how a refusal is worded until its block is final."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

from aiohttp import web
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from api.context import Context
from api.database import DATABASE_ERRORS
from api.http.caller import caller_ip
from api.http.limits import NoPlace
from api.http.problem import Problem
from api.payments.authorization import Authorization
from core.chain import Call
from core.chain.finality import final_block
from core.config import ChainName
from core.db.schema.index import chain_cursor
from core.db.schema.outbox import outbox_intent
from core.log import get_logger
from core.outbox import ENDED, HAS_RESULT, RELAY, Intent, IntentRequest, IntentState, MinedOutcome

log = get_logger(__name__)

READ_SECONDS = 3.0
FOR_NOW = (
    "This is not final: the bet was sent before, and if a reorganization of the chain undoes the block that refused "
    "it, it may still be taken."
)

# Return the keys of a bet's intents so far.
ReadKeys = Callable[[AsyncConnection], Awaitable[list[str]]]


def attempt_of(key: str, kind: str, chain_id: int, call: Call, authorization: Authorization) -> IntentRequest:
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


def asks_again(refusal: Problem) -> bool:
    """Return whether the same request may succeed later."""
    return refusal.status >= 500 or refusal.status == 429


def for_now(refusal: Problem, then: str) -> Problem:
    """Return the same refusal, marked as not final. `then`: a sentence that says where to look."""
    return type(refusal)(
        refusal.status,
        refusal.code,
        f"{refusal.message} {FOR_NOW} {then}",
        headers=refusal.headers,
        extra={**refusal.extra, "final": False},
    )


class Attempts:
    """One surface's attempts. `then`: a sentence that says where to look after a refusal that is not final."""

    def __init__(self, context: Context, chain: ChainName, then: str) -> None:
        self._settings = context.settings
        self._places = context.payments
        self._primary = context.primary  # what is said of money must not be behind what was just written
        self._watch = context.watch
        self._finality_blocks = context.settings.chain(chain).finality_blocks
        self._then = then

    @contextlib.contextmanager
    def place(self, request: web.Request, crowded: Callable[[], Problem]) -> Iterator[Callable[[], None]]:
        """Hold one of the places for payments that are being checked; yields what gives it back early."""
        try:
            with self._places.taken(caller_ip(request, self._settings)) as leave:
                yield leave
        except NoPlace:
            raise crowded() from None

    async def result(self, intent: Intent, seconds: float) -> Intent:
        """Wait until the intent has ended or time is up. If the database fails, return what was known before."""
        with contextlib.suppress(*DATABASE_ERRORS):
            async with asyncio.timeout(seconds + 1):
                return await self._watch.wait(intent.id, HAS_RESULT, timeout_seconds=seconds)
        return intent

    async def may_land(self, keys: ReadKeys, *, or_is_on_its_way: bool = True) -> bool:
        """Return whether a refused bet may still be mined by one of its attempts so far; True if that is unknown.

        A reorganization may replace the block in which its transaction reverted, until that block is final.
        `or_is_on_its_way`: also count an intent that is pending or mined.
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
            elif or_is_on_its_way and (each.outcome is not None or IntentState(each.state) not in ENDED):
                return True
        return False

    async def worded(self, refusal: Problem, keys: ReadKeys) -> Problem:
        """Return the refusal, marked as not final while an attempt may still land."""
        is_for_now = await self.may_land(keys, or_is_on_its_way=not asks_again(refusal))
        return for_now(refusal, self._then) if is_for_now else refusal
