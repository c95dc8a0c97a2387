"""core/feeds/rounds.py against the contracts: the same tapes, drawn from the same seeds, must fold to the same hashes.

`tests/contracts/forge/rounds/RoundMirror.t.sol` folds what the contracts say and holds the hashes. When the tapes
change on purpose, run this file, take the hashes it computes, and let forge confirm that the contracts come to them as
well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from core.feeds import rounds
from core.feeds.rounds import FeedHead, Round, Spec, round_id
from tests.support.rounds import memory, run
from tests.support.rounds import preview as previewed

FORGE_TEST = Path(__file__).parents[1] / "contracts" / "forge" / "rounds" / "RoundMirror.t.sol"
EPOCH = 1000


class Draws:
    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, bound: int) -> int:
        self.state = int.from_bytes(keccak(self.state.to_bytes(32, "big")), "big")
        return self.state % bound


@dataclass(frozen=True)
class Tape:
    """A feed as LocalFeed would hold it, and the market over it."""

    stored: dict[int, Round]
    latest: int  # the id of the current phase's last pushed round
    phases: int
    spec: Spec
    paused: bool

    def read(self, wanted: int) -> Round | None:
        found = self.stored.get(wanted)
        return found if found is not None and found.updated_at != 0 else None

    def head(self, *, missing_reverts: bool) -> FeedHead:
        gone = missing_reverts and self.read(self.latest) is None
        return FeedHead(None if gone else self.latest)


def draw_answer(draws: Draws) -> int:
    r = draws.below(32)
    return {0: 0, 1: -1, 2: 10**14, 3: 10**14 - 1}.get(r, 100 * 10**8 + r % 3)


def draw_tape(seed: int) -> Tape:
    """`Tapes.draw`, and `Tapes.spoil` for every fourth."""
    draws = Draws(seed)
    phases = 1 + draws.below(8)
    if draws.below(16) == 0:
        phases += 2
    stored: dict[int, Round] = {}
    latest = 0
    for phase in range(1, phases + 1):
        count = draws.below(8)
        time = EPOCH + draws.below(200)
        latest = round_id(phase, count)
        for number in range(1, count + 1):
            wanted = round_id(phase, number)
            stored[wanted] = Round(wanted, draw_answer(draws), time)
            time += draws.below(40)
    strike = EPOCH + draws.below(300)
    final = strike + 1 + draws.below(150)
    max_strike_age = 1000 if draws.below(2) == 0 else draws.below(60)
    max_final_age = 1000 if draws.below(2) == 0 else draws.below(60)
    paused = draws.below(6) == 0
    if seed % 4 == 3:
        spoil = Draws(2**256 - 1 - seed)
        for _ in range(3):
            wanted = round_id(1 + spoil.below(phases), 1 + spoil.below(8))
            time = 0 if spoil.below(3) == 0 else EPOCH + spoil.below(400)
            stored[wanted] = Round(wanted, 100 * 10**8, time)
    return Tape(stored, latest, phases, Spec(strike, final, max_strike_age, max_final_age), paused)


def fold_tape(digest: bytes, seed: int) -> bytes:
    """`RoundMirrorTest.fold`."""
    tape = draw_tape(seed)
    read = memory(tape.read)
    for missing_reverts in (True, False):
        head = tape.head(missing_reverts=missing_reverts)
        for time in (tape.spec.strike_time, tape.spec.final_time):
            reading = run(rounds.in_effect_at(head, time, read))
            values = (*fields(reading.round), int(reading.problem))
            digest = keccak(digest + encode(["uint80", "int256", "uint256", "uint8"], values))
            for phase in range(tape.phases + 2):
                for number in range(10):
                    if run(rounds.prove_in_effect_at(head, round_id(phase, number), time, read)) is not None:
                        digest = keccak(digest + encode(["uint256", "uint256"], (phase, number)))
        now = tape.spec.final_time + seed % 5
        preview = run(previewed(tape.spec, head, read, paused=tape.paused, now=now))
        types = ["uint8", *["uint80", "int256", "uint256"] * 2]
        digest = keccak(digest + encode(types, (int(preview.status), *fields(preview.strike), *fields(preview.final))))
    return digest


def fields(found: Round | None) -> tuple[int, int, int]:
    return (0, 0, 0) if found is None else (found.id, found.answer, found.updated_at)


def test_mirror_and_contracts_fold_to_the_same_hashes() -> None:
    source = FORGE_TEST.read_text()
    tapes = re.search(r"TAPES = (\d+);", source)
    assert tapes is not None
    pinned = [(int(start), want) for start, want in re.findall(r"_agree\((\d+), (0x[0-9a-f]+)\)", source)]
    assert len(pinned) == 8
    folded = []
    for start, _ in pinned:
        digest = bytes(32)
        for seed in range(start, start + int(tapes[1])):
            digest = fold_tape(digest, seed)
        folded.append((start, "0x" + digest.hex()))
    assert folded == pinned
