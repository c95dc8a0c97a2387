"""A copy of the contracts and their theorems, in which a guard is taken out."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

from core.paths import REPOSITORY
from scripts._prove import provers
from scripts._prove.guards import Guard
from scripts._prove.theorem import PROOFS, Outcome
from scripts._prove.theorems import THEOREMS

_FILES = (
    "foundry.toml",
    "remappings.txt",
    "tests/contracts/foundry.base.toml",
    "tests/contracts/forge/Base.sol",
)


class Copy:
    """A project of its own. It stays, for what forge has compiled."""

    def __init__(self) -> None:
        self.folder = provers.BUILD / "guards"
        for part in ("contracts", str(PROOFS)):
            shutil.rmtree(self.folder / part, ignore_errors=True)
            shutil.copytree(REPOSITORY / part, self.folder / part)
        for name in _FILES:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, self.folder / name)
        for name in ("node_modules", "scripts"):
            (self.folder / name).unlink(missing_ok=True)
            (self.folder / name).symlink_to(REPOSITORY / name)

    def without(self, guard: Guard, patience: int = 1) -> Outcome:
        """What becomes of the guard's theorem once it is gone. `patience`: so many times may the prover take as long as
        on an idle machine."""
        (theorem,) = (each for each in THEOREMS if each.name == guard.theorem)
        theorem = replace(theorem, seconds=patience * theorem.seconds)
        source = self.folder / guard.source
        text = source.read_text()
        try:
            source.write_text(text.replace(guard.code, guard.without))
            if theorem.is_lemma:
                return provers.prove_lemma(theorem, self.folder)
            self._only_theorems_of(theorem.contract)
            provers.build(self.folder)
            return provers.prove([theorem], self.folder)[0]
        except provers.NotBuilt as error:
            return Outcome(theorem, "does not compile", 0.0, str(error))
        finally:
            source.write_text(text)

    def _only_theorems_of(self, contract: str) -> None:
        """Everything else would be compiled as well."""
        for source in (self.folder / PROOFS).rglob("*.sol"):
            source.unlink()
        for source in _with_imports(contract):
            copy = self.folder / source.relative_to(REPOSITORY)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)


def _with_imports(contract: str) -> set[Path]:
    """The file of a contract of theorems, and those of our proofs that it is made of."""
    proofs = REPOSITORY / PROOFS
    waiting = [each for each in proofs.rglob("*.t.sol") if f"contract {contract} " in each.read_text()]
    sources: set[Path] = set()
    while waiting:
        source = waiting.pop()
        if source not in sources and source.is_relative_to(proofs):
            sources.add(source)
            imports = re.findall(r'from "(\.[^"]+)"', source.read_text())
            waiting += [(source.parent / name).resolve() for name in imports]
    return sources
