"""The steps of a signed bet, in order: check it, store one attempt, wait for its result, and respond with its outcome.

Each of the two surfaces passes its bets as a `Submission` with the surface's own checks and texts.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from aiohttp import web
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from api.context import Context
from api.database import DATABASE_ERRORS
from api.limits import LimiterFull, caller_ip
from api.payments.attempts import Attempts, BetKey
from api.problems import Problem
from core.chain.heads import final_block
from core.config import ChainName
from core.db.schema.index import chain_cursor
from core.log import get_logger
from core.outbox import HAS_RESULT, Intent

log = get_logger(__name__)
Answer = TypeVar("Answer")

READ_SECONDS = 3.0
NOT_FINAL = (
    "This is not final: the bet was sent before, and it may still be taken if a chain reorganization undoes the block "
    "that refused it."
)


class Submission(ABC, Generic[Answer]):
    """A signed bet that one request submitted. Each surface implements its own part of each step. A step returns an
    answer or raises a refusal.

    `release`: frees the bet's place among the bets being checked. A step calls it before waiting for a receipt.
    """

    key: BetKey
    release: Callable[[], None] = staticmethod(lambda: None)

    @abstractmethod
    def too_many(self) -> Problem:
        """Return the refusal for a bet that arrives while too many payments are being checked."""

    @abstractmethod
    async def check(self) -> Answer | Intent:
        """Check the bet and store an attempt. Return the attempt's intent, or the answer if the outcome is already
        known."""

    @abstractmethod
    def wait_seconds(self) -> float:
        """Return how long to wait for the result of the attempt."""

    @abstractmethod
    async def landed(self, intent: Intent) -> Answer:
        """Return the answer for a bet that this attempt placed."""

    @abstractmethod
    async def landed_otherwise(self, intent: Intent) -> Answer | None:
        """Return the answer if the bet is on the chain although this attempt failed. Return None if the bet is not on
        the chain. Raise a retriable refusal while it is unknown whether the bet is on the chain."""

    @abstractmethod
    async def refused(self, intent: Intent) -> Answer:
        """Return the answer if this attempt ended without placing the bet and the bet did not land in any other way."""

    @abstractmethod
    def pending(self, intent: Intent) -> Answer:
        """Return the answer while this attempt has no result."""

    @abstractmethod
    async def landed_meanwhile(self, refusal: Problem) -> Answer | None:
        """Return the answer if the bet has landed despite this refusal, else None. The landed bet's own effects may be
        the reason for the refusal."""

    @abstractmethod
    def is_settled(self, refusal: Problem) -> bool:
        """Return whether a refusal is final because no attempt to place the bet can contradict it."""

    @abstractmethod
    def escape_kit_for(self, refusal: Problem) -> Mapping[str, Any] | None:
        """Return the call that places the bet, if the refusal should show it so that the payer can send it."""


class Payments:
    """The pipeline of one surface. `next_step`: a sentence that says where to find the outcome. Refusals that are not
    final include it."""

    def __init__(self, context: Context, chain: ChainName, attempts: Attempts, next_step: str) -> None:
        self.attempts = attempts
        self._settings = context.settings
        self._limiter = context.payments
        self._pool = context.pool
        self._watch = context.watch
        self._finality_blocks = context.settings.chain(chain).finality_blocks
        self._next_step = next_step

    async def run(self, request: web.Request, submission: Submission[Answer]) -> Answer:
        """Take a submission through all steps, and respond with its bet's outcome."""
        with self._checking_slot(request, submission):
            try:
                return await self._answer(submission)
            except Problem as refusal:
                _add_escape_kit(refusal, submission)
                if submission.is_settled(refusal):
                    raise
                raise await self._mark_if_not_final(refusal, submission.key) from None

    async def _answer(self, submission: Submission[Answer]) -> Answer:
        try:
            found = await submission.check()
            if not isinstance(found, Intent):
                return found
            submission.release()  # an accepted bet waits for its block without a place
            return await self._outcome(submission, found)
        except Problem as refusal:
            answer = await submission.landed_meanwhile(refusal)
            if answer is None:
                raise
            return answer

    async def _outcome(self, submission: Submission[Answer], intent: Intent) -> Answer:
        intent = await self._result(intent, submission.wait_seconds())
        if intent.succeeded:
            return await submission.landed(intent)
        if intent.may_land:
            return submission.pending(intent)
        answer = await submission.landed_otherwise(intent)
        return await submission.refused(intent) if answer is None else answer

    async def _result(self, intent: Intent, seconds: float) -> Intent:
        """Wait until the intent has a result or the time is up, and return the intent. If the database fails, return
        the intent unchanged."""
        with contextlib.suppress(*DATABASE_ERRORS):
            async with asyncio.timeout(seconds + 1):
                return await self._watch.wait(intent.id, HAS_RESULT, timeout_seconds=seconds)
        return intent

    @contextlib.contextmanager
    def _checking_slot(self, request: web.Request, submission: Submission[Answer]) -> Iterator[None]:
        """Hold a place among the payments being checked, until the block ends or the submission releases it."""
        try:
            with self._limiter.place(caller_ip(request, self._settings)) as submission.release:
                yield
        except LimiterFull:
            refusal = submission.too_many()
            _add_escape_kit(refusal, submission)
            raise refusal from None

    async def may_land(self, key: BetKey, *, or_in_flight: bool = True) -> bool:
        """Return whether one of the attempts so far may still place a refused bet. Return True if that is unknown."""
        try:
            async with asyncio.timeout(READ_SECONDS), self._pool.connection() as connection:
                return await self.attempts.may_land(connection, key, self._finality_blocks, or_in_flight=or_in_flight)
        except DATABASE_ERRORS as error:
            log.warning("failed to read whether a refusal is final", action="payments.no_database", why=error)
            return True

    async def _mark_if_not_final(self, refusal: Problem, key: BetKey) -> Problem:
        """Return the refusal, marked as not final if an attempt may still land."""
        may_land = await self.may_land(key, or_in_flight=not is_retriable(refusal))
        return mark_not_final(refusal, self._next_step) if may_land else refusal


def _add_escape_kit(refusal: Problem, submission: Submission[Any]) -> None:
    kit = submission.escape_kit_for(refusal)
    if kit is not None:
        refusal.extra["escapeKit"] = kit


def asks_to_retry(refusal: Problem) -> bool:
    """Return whether a refusal says that this bet may succeed later. Rate limits do not count, because they say nothing
    about the bet."""
    return is_retriable(refusal) and not (refusal.code == "rate_limited" and "retryAfter" in refusal.extra)


def is_retriable(refusal: Problem) -> bool:
    """Return whether the same request may succeed later."""
    return refusal.status >= 500 or refusal.status == 429


def mark_not_final(refusal: Problem, next_step: str) -> Problem:
    """Return a copy of the refusal that is marked as not final. `next_step`: a sentence that says where to find the
    outcome."""
    return type(refusal)(
        refusal.status,
        refusal.code,
        f"{refusal.message} {NOT_FINAL} {next_step}",
        headers=refusal.headers,
        extra={**refusal.extra, "final": False},
    )


async def read_final_block(connection: AsyncConnection, chain_id: int, finality_blocks: int) -> int:
    """Return the last indexed block that is final."""
    query = select(chain_cursor.c.number, chain_cursor.c.finalized_number).where(chain_cursor.c.chain_id == chain_id)
    row = (await connection.execute(query)).one()
    return final_block(row.number, row.finalized_number, finality_blocks)
