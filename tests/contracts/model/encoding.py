"""Writes histories, with what the model expects of every step, for `HistoryReplay.sol` to replay on the contract. A
history is a run of 256-bit words: its number, kappa, fee, seed and cap of a side, then steps, each an opcode and its
arguments. A file is `abi.encode(uint256[][])` of some histories. The opcodes and layouts here and in
`HistoryReplay.sol` are one format; change them together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from core.contracts.events.stock import Delivered, ResidueClaimed
from tests.contracts.model import histories as step
from tests.contracts.model.histories import History, Step, generate
from tests.contracts.model.narrator import Narrator
from tests.contracts.model.parimutuel import SCALE, Entry

ENTER, BLOCK, TIME, FINALIZE, TRANSFER, RESOLVE, VOID, REFUND, CLAIM, DELIVER, RESIDUE, CHECK, ORDER = range(1, 14)

PER_FILE = 100
"""Histories in one file, which share one settler and one token."""


def history(seed: str, number: int) -> History:
    """Return the `number`-th history of a seed, independently of the others."""
    return generate(Random(f"{seed}:{number}"))


def words(number: int, history: History) -> list[int]:
    narrator = Narrator(history)
    narrator.opening()
    out = [number, history.kappa, history.fee_bps, history.seed, history.side_cap]
    for s in history.steps:
        out += _step(narrator, s)
    return [*out, *_order(narrator)]


def _step(narrator: Narrator, s: Step) -> Iterator[int]:
    """Return the words of one step, and lead the narrator through it."""
    finalizable = narrator.finalizable()
    time_before = narrator.timestamp
    events = narrator.do(s)
    sent = {e.position_id: e.payout + e.refund for e in events if isinstance(e, Delivered)}
    if narrator.timestamp != time_before:
        yield from (TIME, narrator.timestamp)
    match s:
        case step.Enter(actor, side, amount):
            yield from (ENTER, actor, side, amount)
        case step.NextBlock():
            yield from (BLOCK, narrator.run.block)
        case step.Finalize():
            yield from (FINALIZE, finalizable)
        case step.Transfer(number, to):
            yield from (TRANSFER, number, to)
        case step.Resolve(winner):
            yield from (RESOLVE, winner)
        case step.Void(by_resolver):
            yield from (VOID, by_resolver)
        case step.Refund(number):
            yield from (REFUND, number, sum(sent.values()))
        case step.Claim(number):
            yield from (CLAIM, number, sum(sent.values()))
        case step.Deliver(numbers):
            yield from (DELIVER, len(numbers))
            for number in numbers:
                # A repeated position is paid once.
                yield from (number, sent.pop(narrator.ids[number], 0))
        case step.TakeResidue():
            yield from (RESIDUE, sum(e.amount for e in events if isinstance(e, ResidueClaimed)))
        case step.Check():
            yield from _check(narrator)
        case step.Wait() | step.Freeze():
            pass


def _check(narrator: Narrator) -> Iterator[int]:
    model = narrator.model
    paid = [model.due(e) for e in model.entries if e.payout_sent]
    yield CHECK
    yield 4 if model.voided else 1 if model.winner is None else 2 + model.winner
    yield model.principal(0) + model.principal(1)
    yield sum(due.gross for due in paid) + narrator.residue_taken
    yield model.unpaid_principal()
    yield narrator.pending.block if narrator.pending else 0
    yield len({e.block for e in model.entries if e.block})
    yield sum(due.fee for due in paid)
    for side in (0, 1):
        principal, demand = model.principal(side), model.demand(side)
        yield principal
        yield model.promised_since_the_seed(side)
        yield model.capacity(side)
        yield demand
        yield principal + min(demand, model.room(side))
        yield model.headroom(side)
    for entry in model.entries:
        yield from _position(narrator, entry)


def _position(narrator: Narrator, entry: Entry) -> Iterator[int]:
    """Return two words: accepted, refused part, unsent total, fee; accrued, gross, entry accumulator, whether
    matched."""
    model = narrator.model
    due, unsent = model.due(entry), model.unsent(entry)
    matched = entry.accepted is not None
    entry_acc = model.promised_since_the_seed(entry.side) - (entry.per_unit - SCALE) if matched else 0
    yield _packed((entry.accepted or 0, 64), (due.refund, 64), (unsent.net + unsent.refund, 64), (due.fee, 64))
    yield _packed((model.accrued(entry), 64), (due.gross, 64), (entry_acc, 96), (int(matched), 32))


def _packed(*fields: tuple[int, int]) -> int:
    """Pack fields, each (value, width), from the lowest bits up."""
    word = shift = 0
    for value, width in fields:
        assert 0 <= value < 1 << width, (value, width)
        word |= value << shift
        shift += width
    return word


def _order(narrator: Narrator) -> list[int]:
    """Return the order of `positionsOf`: by vintage, within one UP before DOWN, within a side in the order of entry."""
    order = sorted(narrator.model.entries, key=lambda e: (e.block, e.side, e.number))
    return [ORDER, len(order), *(e.number for e in order)]


def encoded(rows: list[list[int]]) -> bytes:
    """Return `abi.encode(uint256[][])`. A general encoder is too slow, because the files hold millions of words."""
    heads, bodies, offset = [], [], 32 * len(rows)
    for one in rows:
        heads.append(offset)
        bodies += [len(one), *one]
        offset += 32 * (1 + len(one))
    return b"".join(word.to_bytes(32, "big") for word in [32, len(rows), *heads, *bodies])


def write(folder: Path, seed: str, count: int) -> None:
    """Write `count` histories of `seed` to files 0.bin, 1.bin and so on in an empty folder."""
    for file, first in enumerate(range(0, count, PER_FILE)):
        numbers = range(first, min(first + PER_FILE, count))
        (folder / f"{file}.bin").write_bytes(encoded([words(n, history(seed, n)) for n in numbers]))
