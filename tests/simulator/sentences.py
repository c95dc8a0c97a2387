"""The five sentences of the agent side, asked of the chain and the tables when all is over."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psycopg

from core.agent.bet import idem_hash, market_key
from core.chain import ChainClient
from core.chain.provider import ChainProvider
from core.contracts.statuses import AgentMarketStatus, StakeStatus
from core.db.engine import make_pool
from indexer.audit.run import audit
from indexer.sources import sources_of
from tests.simulator.bettors import Bet, Crowd
from tests.simulator.clients import Outcome
from tests.simulator.contracts import LOOKS_BACK_SECONDS, Truth
from tests.simulator.judgement import AUDIT, DOUBLED, LOST, PAID, TRUE, Judgement

_STANDING = (
    "SELECT e.trade_id FROM agent_event e WHERE e.type = 'bet.placed' AND e.corrects IS NULL AND NOT EXISTS"
    " (SELECT FROM agent_event c WHERE c.corrects = e.source AND c.occurrence = e.occurrence)"
)
_UNTRUE_ROWS = {
    "notices tell of a bet that is not there": (
        f"SELECT count(*) FROM ({_STANDING}) e WHERE e.trade_id NOT IN (SELECT bet_hash FROM agent_stake)"
    ),
    "bets are there of which no notice tells": (
        f"SELECT count(*) FROM agent_stake WHERE outcome IS NOT NULL AND bet_hash NOT IN ({_STANDING})"
    ),
}
_DOUBLE_ROWS = {
    "payments are booked twice": (
        "SELECT count(*) FROM (SELECT FROM agent_stake GROUP BY wallet, nonce HAVING count(*) > 1) x"
    ),
    "keys of a wallet have two bets": (
        "SELECT count(*) FROM (SELECT FROM agent_stake WHERE outcome IS NOT NULL"
        " GROUP BY wallet, idem_hash HAVING count(*) > 1) x"
    ),
    "authorizations were used without a transfer": (
        "SELECT count(*) FROM token_authorization WHERE state = 'unpaired'"
    ),
    "notices were told twice, and not taken back between": (
        "SELECT count(*) FROM (SELECT FROM agent_event e GROUP BY wallet, source HAVING count(*) - (SELECT count(*)"
        " FROM agent_event c WHERE c.wallet = e.wallet AND c.corrects = e.source) > 1) x"
    ),
}


@dataclass
class Judge:
    """Asks the chain itself, past every node, and the database past every cache."""

    truth: Truth
    crowd: Crowd
    database_url: str
    began_with: int
    judgement: Judgement = field(default_factory=Judgement)

    async def all(self, chain_url: str) -> Judgement:
        for each in self.crowd.bets:
            await self.crowd.ask_again(each)
        stakes = [self._bet(each) for each in self.crowd.bets]
        self._balances([each for each in stakes if each is not None])
        self._tables()
        self._answers()
        self._settled()
        await self._audit(chain_url)
        self.judgement.counts["bets"] = len(self.crowd.bets)
        for told in Outcome:
            self.judgement.counts[told] = sum(1 for each in self.crowd.bets if each.told is told)
        return self.judgement

    # ------------------------------------------------------------ money

    def _bet(self, bet: Bet) -> Any:
        """A bet that was taken is there, once, as it was paid for; one that was refused is not."""
        about = f"{bet.key} of {bet.wallet.address} for {bet.amount}: {'; '.join(bet.answers[-6:])}"
        identity = self.truth.stake_of(bet.wallet.address, bet.key)
        stake = None if identity == 0 else self.truth.stake(identity)
        if bet.told is Outcome.WAITING:
            self.judgement.against(PAID, f"a bet has no definite answer: {about}")
        if bet.told is Outcome.TAKEN:
            if stake is None:
                self._undone(bet, about)
            elif stake["amount"] != bet.amount:
                self.judgement.against(LOST, f"a bet has another amount, {stake['amount']}: {about}")
        if bet.told is Outcome.REFUSED and stake is not None:
            self.judgement.against(DOUBLED, f"a bet that was refused is there: {about}")
        for each in bet.faults:
            self.judgement.against(TRUE, f"{each}: {about}")
        self._asked_again(bet, stake, about)
        return stake

    def _undone(self, bet: Bet, about: str) -> None:
        """Of a bet that was taken nothing is left: only a fork can do that, when the contract refuses it in the new
        blocks, as the relayer knows. Its money is then its bettor's, as the balances show."""
        if self.truth.chain.forked_since(bet.told_at - LOOKS_BACK_SECONDS) and self._was_refused(bet):
            self.judgement.counts["taken and undone by a fork"] += 1
        else:
            self.judgement.against(LOST, f"a bet that was taken is not there: {about}")

    def _was_refused(self, bet: Bet) -> bool:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            row = connection.execute(
                "SELECT i.outcome IS DISTINCT FROM 'succeeded' AND (i.outcome IS NOT NULL OR i.state = 'failed')"
                " FROM agent_trade t JOIN outbox_intent i ON i.id = t.intent_id"
                " WHERE t.wallet = %s AND t.idem_hash = %s",
                (bytes.fromhex(bet.wallet.address[2:]), idem_hash(bet.key)),
            ).fetchone()
        return row is not None and bool(row[0])

    def _asked_again(self, bet: Bet, stake: Any, about: str) -> None:
        """What the service says of a bet when all is over is what the chain says."""
        status, answer = bet.last
        if (status == 200) != (stake is not None):
            self.judgement.against(TRUE, f"asked at the end it says {status} {answer}, there: {bool(stake)}: {about}")
        elif stake is not None:
            self.judgement.counts["receipts"] += 1
            fault = self.truth.receipt(bet.wallet.address, bet.key, answer)
            if fault:
                self.judgement.against(TRUE, f"asked at the end, {fault}: {about}")

    def _balances(self, stakes: list[Any]) -> None:
        """Every bettor has what it began with, less its stakes, and what it was paid; the wallet holds what it owes."""
        spent, owed = Counter[str](), Counter[str]()
        for stake in stakes:
            owner = stake["wallet"].lower()
            spent[owner] += stake["amount"]
            owed[owner] += stake["payable_"]
        for each in self.crowd.wallets:
            owner = each.address.lower()
            paid = self._paid_to(owner)
            has, due = self.truth.balance(each.address), self.began_with - spent[owner] + paid
            if has != due:
                word = LOST if has < due else DOUBLED
                self.judgement.against(word, f"{owner} has {has} and not {due}: {spent[owner]} staked, {paid} paid")
            self.judgement.counts["paid units"] += paid
        liabilities = self.truth.read(self.truth.wallet.call("liabilities"))
        due = sum(liabilities) if isinstance(liabilities, tuple | list) else int(liabilities)
        holds = self.truth.balance(self.truth.wallet.address)
        if holds < due:
            self.judgement.against(LOST, f"the settlement wallet holds {holds} and owes {due}")

    def _paid_to(self, owner: str) -> int:
        """By the index: the audit holds its stakes to the contract's."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            row = connection.execute(
                "SELECT coalesce(sum(paid_amount), 0)::bigint FROM agent_stake WHERE wallet = %s",
                (bytes.fromhex(owner[2:]),),
            ).fetchone()
        assert row is not None
        return int(row[0])

    def _tables(self) -> None:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            for sentence, rows in ((DOUBLED, _DOUBLE_ROWS), (TRUE, _UNTRUE_ROWS)):
                for what, query in rows.items():
                    row = connection.execute(query.encode()).fetchone()
                    if row is None or row[0]:
                        self.judgement.against(sentence, f"{row and row[0]} {what}")
            waiting = connection.execute(
                "SELECT kind, state, count(*) FROM outbox_intent WHERE state IN ('queued', 'signed', 'sent')"
                " AND created_at < now() - interval '60 s' GROUP BY 1, 2"
            ).fetchall()
            for kind, state, count in waiting:
                self.judgement.against(PAID, f"{count} {kind} are still {state} after a minute")

    # ------------------------------------------------------------ answers

    def _answers(self) -> None:
        """A market's numbers are the contract's at the very block that the answer names, while that block stood."""
        for seen in self.crowd.seen:
            if seen.true is None:
                self.judgement.counts["answers of an undone block"] += 1
                continue
            self.judgement.counts["answers judged"] += 1
            if seen.true:
                self.judgement.against(TRUE, seen.true)

    # ------------------------------------------------------------ the end

    def _settled(self) -> None:
        for name in sorted({each.market for each in self.crowd.bets}):
            market = self.truth.market_if_listed(market_key(name))
            if market is None:  # a fork undid it, with every bet on it
                self.judgement.counts["markets undone by a fork"] += 1
                continue
            terms = self.truth.read(self.truth.contracts.resolver.call("terms", market_key(name)))
            over = market["status"] in (AgentMarketStatus.RESOLVED, AgentMarketStatus.VOID)
            if not over and terms["settlesAfter"] + 60 < self.crowd.clock.now:
                self.judgement.against(PAID, f"{name} could be settled for a minute and is not")
            if not over:
                continue
            self.judgement.counts["markets settled"] += 1
            for ordinal in range(market["stakes"]):
                stake = self.truth.stake((market["index"] << 32) + ordinal)
                if stake["payable_"]:
                    self.judgement.against(PAID, f"stake {ordinal} of {name} is owed {stake['payable_']}")
                self.judgement.counts["stakes paid"] += stake["status"] in (StakeStatus.PAID, StakeStatus.REFUNDED)

    async def _audit(self, chain_url: str) -> None:
        provider = ChainProvider((chain_url,), chain_id=self.truth.deployment.chain_id, timeout_seconds=5)
        async with provider as rpc, make_pool(os.environ["DATABASE_URL"], size=2) as pool:
            _, comparison = await audit(pool, ChainClient(rpc), sources_of(self.truth.deployment, "base"))
        self.judgement.counts["facts audited"] = comparison.compared
        if comparison.mismatches:
            self.judgement.against(AUDIT, f"{comparison.mismatches} mismatches: {comparison.detail}")
