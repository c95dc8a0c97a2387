"""What a theorem is, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROOFS = Path("tests/contracts/proofs")
LEMMAS = PROOFS / "lemmas"
ALL = "all values"


@dataclass(frozen=True, slots=True)
class Theorem:
    """A sentence about the contracts, and where it is proved.

    `proof` is `Contract.check_function`, which Halmos runs on the compiled contracts, or a file of `lemmas/`, which Z3
    decides over the integers. `bounds` says for what it is proved and what is assumed; `seconds` how long it may take.
    """

    name: str
    says: str
    proof: str
    bounds: str = ALL
    seconds: int = 60
    quick: bool = True
    loops: int = 2  # how often a loop may turn; one that turns further is not proved

    @property
    def is_lemma(self) -> bool:
        return self.proof.endswith(".smt2")

    @property
    def contract(self) -> str:
        return self.proof.partition(".")[0]

    @property
    def function(self) -> str:
        return self.proof.partition(".")[2]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a theorem ended: `proved`, or else what the prover said instead, with its counterexample."""

    theorem: Theorem
    result: str
    seconds: float
    why: str = ""

    @property
    def proved(self) -> bool:
        return self.result == PROVED


PROVED = "proved"
REFUTED = "refuted"
