"""Checks the five sentences of the stock side against VestedMarkets, its logs and the tables at the end."""

from __future__ import annotations

from collections import Counter

from core.contracts.statuses import StockMarketStatus
from tests.simulator.clients import Outcome
from tests.simulator.judge import REFUSED, Judge
from tests.simulator.judgement import DOUBLED, LOST, PAID, TRUE
from tests.simulator.stock_bettors import RelayedBet, StockCrowd
from tests.simulator.stock_contracts import Entry, Ledger, StockTruth

SETTLES_WITHIN_SECONDS = 60


class StockJudge(Judge[StockTruth, RelayedBet]):
    chain = "stock"

    def money(self) -> None:
        ledger = self.truth.ledger()
        for each in self.crowd.bets:
            self._bet(each, ledger)
        self._balances(ledger)
        self._payouts(ledger)

    def _bet(self, bet: RelayedBet, ledger: Ledger) -> None:
        about = f"{bet.nonce} of {bet.wallet.address} for {bet.amount}: {'; '.join(bet.answers[-6:])}"
        owner = bet.wallet.address.lower()
        entries = ledger.by_authorization.get((owner, bet.nonce), [])
        self.check_reported(bet, bool(entries), about)
        if bet.reported is Outcome.REFUSED and entries:
            self.refused_and_there(bet, about)
        if len(entries) > 1:
            self.judgement.against(DOUBLED, f"a bet has {len(entries)} positions: {about}")
        signed = (bet.market, owner, bet.outcome, bet.amount)
        for each in entries:
            if (each.market, each.owner, each.outcome, each.offered) != signed:
                self.judgement.against(LOST, f"a bet is there as {each}: {about}")
        self._asked_again(bet, entries, about)

    def was_refused(self, bet: RelayedBet) -> bool:
        rows = self.ask(
            f"SELECT {REFUSED} FROM relay_bet b JOIN outbox_intent i ON i.id = b.intent_id"
            " WHERE b.signer = %s AND b.nonce = %s AND b.tx_hash IS NULL",
            (bytes.fromhex(bet.wallet.address[2:]), bytes.fromhex(bet.nonce[2:])),
        )
        return bool(rows and rows[0][0])

    def _asked_again(self, bet: RelayedBet, entries: list[Entry], about: str) -> None:
        relay, receipt = StockCrowd.says_booked(bet)
        there = bool(entries)
        if relay != there:
            self.judgement.against(TRUE, f"asked at the end the relay says {bet.last}, there: {there}: {about}")
        if receipt != there:
            self.judgement.against(TRUE, f"asked at the end the receipt is {bet.looked_up}, there: {there}: {about}")
        if not there:
            return
        self.judgement.counts["receipts"] += 1
        shown = bet.looked_up[1]["position"] if receipt else None
        if shown is not None and int(shown["id"]) != entries[0].position:
            self.judgement.against(TRUE, f"the receipt shows position {shown['id']}, it is {entries[0]}: {about}")

    def _balances(self, ledger: Ledger) -> None:
        """Check that every bettor has the starting balance less stakes plus payouts. Check that the contract holds what
        it owes, and owes what came in and has not gone out."""
        spent, paid = Counter[str](), Counter[str]()
        for entry in ledger.entries.values():
            spent[entry.owner] += entry.offered
        for sent in ledger.deliveries():
            paid[sent.owner] += sent.payout + sent.refund
        for each in self.crowd.wallets:
            owner = each.address.lower()
            has, due = self.truth.balance(each.address), self.began_with - spent[owner] + paid[owner]
            if has != due:
                word = LOST if has < due else DOUBLED
                self.judgement.against(word, f"{owner} has {has} and not {due}: {spent[owner]} in, {paid[owner]} out")
            self.judgement.counts["paid units"] += paid[owner]
        owes, holds = self.truth.number("liabilities"), self.truth.balance(self.truth.settler.address)
        left = ledger.came_in - ledger.went_out
        if not owes == holds == left:
            word = LOST if min(holds, left) < owes else DOUBLED
            self.judgement.against(word, f"the contract owes {owes}, holds {holds}, and {left} did not go out")

    def _payouts(self, ledger: Ledger) -> None:
        for position, sent in ledger.sent.items():
            if sum(1 for each in sent if each.payout) > 1 or sum(1 for each in sent if each.refund) > 1:
                self.judgement.against(DOUBLED, f"position {position} was paid twice: {sent}")
            self.judgement.counts["refused parts sent"] += sum(1 for each in sent if each.refund)
            self.judgement.counts["positions paid"] += sum(1 for each in sent if each.payout)

    def settled(self) -> None:
        """Check also markets without bets, and open ones, because a refused part is due at once."""
        for market in self.truth.markets():
            held = self.truth.read(self.truth.call("market", market))
            is_open = held["status"] == StockMarketStatus.OPEN
            if is_open and held["freezeTime"] + SETTLES_WITHIN_SECONDS < self.crowd.clock.now:
                self.judgement.against(PAID, f"market {market} could be settled for a minute and is not")
            if is_open and any(each.reported_at > self.crowd.clock.now - 120 for each in self.crowd.bets):
                continue
            self.judgement.counts["markets settled"] += not is_open
            for position in self.truth.positions_of(market):
                due = self.truth.due(position)
                if due:
                    self.judgement.against(PAID, f"position {position} of market {market} should get {due}")
