"""The checks at a world's end, in order, for every side."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

import psycopg

from core.chain import ChainClient
from core.chain.provider import ChainProvider
from core.db.engine import make_pool
from indexer.audit import views
from indexer.audit.run import audit
from indexer.sources import sources_of
from tests.simulator.clients import Bet, Clients, Outcome
from tests.simulator.contracts import LOOKS_BACK_SECONDS, ChainTruth
from tests.simulator.judgement import AUDIT, DOUBLED, LOST, PAID, TRUE, Judgement

RECENT_STEPS = 90  # of ten seconds, which is longer than any world

B = TypeVar("B", bound=Bet)
T = TypeVar("T", bound=ChainTruth)

_WAITING = (
    "SELECT kind, state, count(*) FROM outbox_intent WHERE state IN ('queued', 'signed', 'sent')"
    " AND created_at < now() - interval '60 s' GROUP BY 1, 2"
)
# Of an intent `i`: it did not do what it was for, and never will.
REFUSED = "i.outcome IS DISTINCT FROM 'succeeded' AND (i.outcome IS NOT NULL OR i.state = 'failed')"


class Judge(ABC, Generic[T, B]):
    chain: ClassVar[str]  # by name

    def __init__(self, truth: T, crowd: Clients[B], database_url: str, began_with: int) -> None:
        self.truth = truth
        self.crowd = crowd
        self.began_with = began_with
        self.judgement = Judgement()
        self._database_url = database_url

    async def all(self, chain_url: str) -> Judgement:
        await asyncio.gather(*map(self.crowd.ask_again, self.crowd.bets))
        self.money()
        self._answers()
        self.settled()
        self._outbox()
        await self._audit(chain_url)
        self.judgement.counts["bets"] = len(self.crowd.bets)
        for outcome in Outcome:
            self.judgement.counts[outcome] = sum(1 for each in self.crowd.bets if each.reported is outcome)
        return self.judgement

    @abstractmethod
    def money(self) -> None:
        """Check every bet, every balance, and their tables."""

    @abstractmethod
    def settled(self) -> None:
        """Check that everything that could be settled is settled and paid."""

    @abstractmethod
    def was_refused(self, bet: B) -> bool:
        """Return whether the relayer recorded that the contract refuses the bet."""

    def ask(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def check_reported(self, bet: B, there: bool, about: str) -> None:
        """Check that a bet has an outcome, that an accepted one is there unless a fork undid it, and that its receipt
        was true."""
        if bet.reported is Outcome.WAITING:
            self.judgement.against(PAID, f"a bet has no definite answer: {about}")
        if bet.reported is Outcome.TAKEN and not there:
            self._undone(bet, about)
        for fault in bet.faults:
            self.judgement.against(TRUE, f"{fault}: {about}")

    def refused_and_there(self, bet: B, about: str) -> None:
        """Check a refused bet that is there. This is allowed only if a fork undid the refusing block and the refusal
        was not called final."""
        if bet.is_refused_for_now and self.truth.chain.forked_since(bet.reported_at):
            self.judgement.counts["refused for now and taken after a fork"] += 1
        else:
            self.judgement.against(DOUBLED, f"a bet that was refused is there: {about}")

    def _undone(self, bet: B, about: str) -> None:
        """Check that nothing is left of an accepted bet that is gone. This happens only if the contract refuses the bet
        in a fork's blocks, as the relayer recorded. `_balances` shows that the bettor has the money."""
        if self.truth.chain.forked_since(bet.reported_at - LOOKS_BACK_SECONDS) and self.was_refused(bet):
            self.judgement.counts["taken and undone by a fork"] += 1
        else:
            self.judgement.against(LOST, f"a bet that was taken is not there: {about}")

    def _answers(self) -> None:
        """Check that what a market's responses say is what the contract had at the block that they name, while that
        block stood."""
        for seen in self.crowd.seen:
            if seen.true is None:
                self.judgement.counts["answers of an undone block"] += 1
                continue
            self.judgement.counts["answers judged"] += 1
            if seen.true:
                self.judgement.against(TRUE, seen.true)

    def _outbox(self) -> None:
        for kind, state, count in self.ask(_WAITING):
            self.judgement.against(PAID, f"{count} {kind} are still {state} after a minute")

    async def _audit(self, chain_url: str) -> None:
        deployment = self.truth.deployment
        provider = ChainProvider((chain_url,), chain_id=deployment.chain_id, timeout_seconds=5)
        views.RECENT_STEPS = RECENT_STEPS  # what is before is of the chain that each world begins with
        async with provider as rpc, make_pool(os.environ["DATABASE_URL"], size=2) as pool:
            comparison = (await audit(pool, ChainClient(rpc), sources_of(deployment, self.chain))).comparison
        self.judgement.counts["facts audited"] = comparison.compared
        if comparison.mismatches:
            self.judgement.against(AUDIT, f"{comparison.mismatches} mismatches: {comparison.detail}")
