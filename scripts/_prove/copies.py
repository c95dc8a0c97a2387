"""A copy of the contracts and their theorems, in which a guard is taken out."""

from __future__ import annotations

import shutil

from core.local.packages import REPOSITORY
from scripts._prove import halmos, lemmas
from scripts._prove.guards import Guard
from scripts._prove.provers import BUILD
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
        self.folder = BUILD / "guards"
        for part in ("contracts", str(PROOFS)):
            shutil.rmtree(self.folder / part, ignore_errors=True)
            shutil.copytree(REPOSITORY / part, self.folder / part)
        for name in _FILES:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, self.folder / name)
        for name in ("node_modules", "scripts"):
            (self.folder / name).unlink(missing_ok=True)
            (self.folder / name).symlink_to(REPOSITORY / name)

    def without(self, guard: Guard) -> Outcome:
        """What becomes of the guard's theorem once it is gone."""
        (theorem,) = (each for each in THEOREMS if each.name == guard.theorem)
        source = self.folder / guard.source
        text = source.read_text()
        try:
            source.write_text(text.replace(guard.code, guard.without))
            if theorem.is_lemma:
                return lemmas.prove(theorem, self.folder)
            halmos.build(self.folder)
            return halmos.prove([theorem], self.folder)[0]
        except halmos.NotBuilt as error:
            return Outcome(theorem, "does not compile", 0.0, str(error))
        finally:
            source.write_text(text)
