"""Lemmas over the integers: what products and quotients of 256 bits are too much for, and schoolbook algebra is not.

A file of `lemmas/` states premises, shows by an example that they do not contradict each other, and then asks for a
counterexample. So Z3 has to answer `sat` and then `unsat`. That the contracts compute what the lemma speaks of is a
theorem of its own, proved on the compiled code.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from scripts._prove.provers import environment
from scripts._prove.theorem import LEMMAS, PROVED, REFUTED, Outcome, Theorem
from scripts._vpm.forge import GIVING_WAY

_RESULTS = {"sat unsat": PROVED, "sat sat": REFUTED, "sat unknown": "unknown", "unsat unsat": "vacuous"}


def prove(theorem: Theorem, project: Path) -> Outcome:
    started = time.monotonic()
    file = project / LEMMAS / theorem.proof
    command = [*GIVING_WAY, "z3", f"-T:{theorem.seconds}", str(file)]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    said = " ".join(ran.stdout.split())
    result = _RESULTS.get(said, "error")
    return Outcome(theorem, result, time.monotonic() - started, "" if result == PROVED else said)
