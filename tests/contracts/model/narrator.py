"""Leads the model through a history and yields the events a contract would emit, with the model's own numbers. The
chain is lazier than the model: it computes a finished vintage only when the market is next touched. The narrator knows
which vintage still waits for that, so the events come in the chain's order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from core.contracts.events import stock as log
from core.stock.vested import Moment, Terms
from tests.contracts.model import histories as step
from tests.contracts.model.histories import History, Run, Step
from tests.contracts.model.parimutuel import Entry
from tests.support.stock_ledger import Event

START = 1_000_000
"""The time a market is created at, Unix seconds."""
FREEZE = START + 100_000
VOID_DELAY = 3_600


def address(name: str) -> bytes:
    """Return the 20-byte address for one of the model's names."""
    return name.encode().rjust(20, b"\0")


def terms(history: History, market_id: int) -> Terms:
    return Terms(
        market_id=market_id,
        opener=address(str(step.OPENER)),
        resolver=address("resolver"),
        freeze_time=FREEZE,
        void_delay=VOID_DELAY,
        fee_bps=history.fee_bps,
        kappa=history.kappa,
        seed_per_leg=history.seed,
        min_entry=1,
        max_entry=2**48 - 1,
        side_cap=history.side_cap,
    )


@dataclass
class Pending:
    """Entries that the chain has not matched yet, all of one block."""

    block: int
    entries: list[Entry]


class Narrator:
    """The events of a chain that has only this market. `now` is when the last step left the chain."""

    def __init__(self, history: History, market_id: int = 1) -> None:
        self.history = history
        self.market_id = market_id
        self.run = Run(history.kappa, history.fee_bps, history.seed, history.side_cap)
        self.model = self.run.model
        self.timestamp = START
        self.ids: list[int] = []
        self.pending: Pending | None = None
        self.residue_taken = 0

    @property
    def now(self) -> Moment:
        return Moment(self.run.block, self.timestamp)

    def opening(self) -> list[Event]:
        t = terms(self.history, self.market_id)
        created = log.MarketCreated(
            t.market_id,
            t.opener,
            t.resolver,
            t.freeze_time,
            t.void_delay,
            t.fee_bps,
            t.kappa,
            t.seed_per_leg,
            t.min_entry,
            t.max_entry,
            t.side_cap,
        )
        return [created, *(self.entered(entry) for entry in self.model.entries)]

    def entered(self, entry: Entry) -> log.Entered:
        """Return the event of an entry. Position ids number each outcome's entries from 0, under the market's id."""
        on_its_side = sum(e.side == entry.side for e in self.model.entries[: entry.number])
        position_id = self.market_id << 32 | on_its_side << 1 | entry.side
        self.ids.append(position_id)
        return log.Entered(self.market_id, position_id, address(entry.owner), entry.side, entry.offered, entry.block)

    def finalized(self) -> list[Event]:
        """Return the event of finalizing the pending vintage, if there is one."""
        if self.pending is None:
            return []
        block, entries = self.pending.block, self.pending.entries
        self.pending = None
        up, down = ([e for e in entries if e.side == side] for side in (0, 1))
        return [
            log.VintageFinalized(
                self.market_id,
                block,
                sum(e.offered for e in up),
                sum(e.offered for e in down),
                sum(e.accepted or 0 for e in up),
                sum(e.accepted or 0 for e in down),
                self.model.promised_since_the_seed(0),
                self.model.promised_since_the_seed(1),
            )
        ]

    def finalizable(self) -> bool:
        """Return whether `finalizeVintage` would do anything: a vintage is pending and over."""
        return self.pending is not None and self.model.open_block is None

    def do(self, s: Step) -> list[Event]:
        """Take one step and yield its events."""
        model = self.model
        owners = [address(entry.owner) for entry in model.entries]
        events: list[Event] = []
        match s:
            case step.Enter():
                if self.finalizable():
                    events += self.finalized()
                self.run.do(s)
                entry = model.entries[-1]
                self.pending = self.pending or Pending(entry.block, [])
                self.pending.entries.append(entry)
                return [*events, self.entered(entry)]
            case step.Finalize():
                return self.finalized() if self.finalizable() else []
            case step.Wait(seconds):
                self.timestamp += seconds
            case step.Freeze():
                self.timestamp = FREEZE
            case step.Transfer(number, to):
                events.append(log.PositionTransferred(self.ids[number], owners[number], address(str(to))))
            case step.Resolve(winner):
                events += [*self.finalized(), log.Resolved(self.market_id, winner)]
            case step.Void(by_resolver):
                self.timestamp += 0 if by_resolver else VOID_DELAY
                events += [*self.finalized(), log.Voided(self.market_id)]
            case step.Refund(number):
                events += self.sent([number], everything=False)
            case step.Claim(number):
                events += self.sent([number], everything=True) if model.settled else []
            case step.Deliver(numbers):
                events += self.sent(list(numbers), everything=True)
            case step.TakeResidue():
                if model.winner is not None and not model.unpaid_principal() and not self.residue_taken:
                    self.residue_taken = model.residue()
                    if self.residue_taken:
                        events.append(log.ResidueClaimed(self.market_id, self.residue_taken))
            case step.NextBlock() | step.Check():
                pass
        self.run.do(s)
        return events

    def sent(self, numbers: list[int], everything: bool) -> Iterator[Event]:
        """Yield what deliveries send, before the model takes the step."""
        done: set[int] = set()
        for number in numbers:
            entry = self.model.entries[number]
            due = self.model.unsent(entry)
            payout, fee = (due.net, due.fee) if everything else (0, 0)
            if number not in done and payout + due.refund > 0:
                yield log.Delivered(self.ids[number], address(entry.owner), payout, fee, due.refund)
            done.add(number)
