"""Checks the five sentences of the agent side against the chain and the tables at the end."""

from __future__ import annotations

from collections import Counter
from typing import Any

from core.agent.bet import idem_hash, market_key
from core.contracts.statuses import AgentMarketStatus, StakeStatus
from tests.simulator.bettors import PaidBet
from tests.simulator.clients import Outcome
from tests.simulator.contracts import Truth
from tests.simulator.judge import REFUSED, Judge
from tests.simulator.judgement import DOUBLED, LOST, PAID, TRUE

_STANDING = (
    "SELECT e.trade_id FROM agent_event e WHERE e.type = 'bet.placed' AND e.corrects IS NULL AND NOT EXISTS"
    " (SELECT FROM agent_event c WHERE c.corrects = e.source AND c.occurrence = e.occurrence)"
)
_UNTRUE_ROWS = {
    "notices report a bet that is not there": (
        f"SELECT count(*) FROM ({_STANDING}) e WHERE e.trade_id NOT IN (SELECT bet_hash FROM agent_stake)"
    ),
    "bets are there without a notice": (
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
    "notices were delivered twice, and not taken back between": (
        "SELECT count(*) FROM (SELECT FROM agent_event e GROUP BY wallet, source HAVING count(*) - (SELECT count(*)"
        " FROM agent_event c WHERE c.wallet = e.wallet AND c.corrects = e.source) > 1) x"
    ),
}


class AgentJudge(Judge[Truth, PaidBet]):
    chain = "base"

    def money(self) -> None:
        stakes = [self._bet(each) for each in self.crowd.bets]
        self._balances([each for each in stakes if each is not None])
        for sentence, rows in ((DOUBLED, _DOUBLE_ROWS), (TRUE, _UNTRUE_ROWS)):
            for what, query in rows.items():
                (found,) = self.ask(query)
                if found[0]:
                    self.judgement.against(sentence, f"{found[0]} {what}")

    def _bet(self, bet: PaidBet) -> Any:
        about = f"{bet.key} of {bet.wallet.address} for {bet.amount}: {'; '.join(bet.answers[-6:])}"
        identity = self.truth.stake_of(bet.wallet.address, bet.key)
        stake = None if identity == 0 else self.truth.stake(identity)
        self.check_reported(bet, stake is not None, about)
        if stake is not None and bet.reported is Outcome.TAKEN and stake["amount"] != bet.amount:
            self.judgement.against(LOST, f"a bet has another amount, {stake['amount']}: {about}")
        if stake is not None and bet.reported is Outcome.REFUSED:
            self.refused_and_there(bet, about)
        self._asked_again(bet, stake, about)
        return stake

    def was_refused(self, bet: PaidBet) -> bool:
        rows = self.ask(
            f"SELECT {REFUSED} FROM agent_trade t JOIN outbox_intent i ON i.id = t.intent_id"
            " WHERE t.wallet = %s AND t.idem_hash = %s",
            (bytes.fromhex(bet.wallet.address[2:]), idem_hash(bet.key)),
        )
        return bool(rows and rows[0][0])

    def _asked_again(self, bet: PaidBet, stake: Any, about: str) -> None:
        status, answer = bet.last
        if (status == 200) != (stake is not None):
            self.judgement.against(TRUE, f"asked at the end it says {status} {answer}, there: {bool(stake)}: {about}")
        elif stake is not None:
            self.judgement.counts["receipts"] += 1
            fault = self.truth.receipt(bet.wallet.address, bet.key, answer)
            if fault:
                self.judgement.against(TRUE, f"asked at the end, {fault}: {about}")

    def _balances(self, stakes: list[Any]) -> None:
        """Check that every bettor has the starting balance less stakes plus payouts, and the wallet holds its debts."""
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
        """Return payouts according to the index, whose stakes the audit compares with the contract's."""
        query = "SELECT coalesce(sum(paid_amount), 0)::bigint FROM agent_stake WHERE wallet = %s"
        return int(self.ask(query, (bytes.fromhex(owner[2:]),))[0][0])

    def settled(self) -> None:
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
                    self.judgement.against(PAID, f"stake {ordinal} of {name} should get {stake['payable_']}")
                self.judgement.counts["stakes paid"] += stake["status"] in (StakeStatus.PAID, StakeStatus.REFUNDED)
