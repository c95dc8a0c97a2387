"""A copy of the contracts and their theorems from which guards are removed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from core.paths import REPOSITORY
from scripts._prove import provers
from scripts._prove.provers import Outcome
from scripts._prove.theorems import PROOFS, Guard, Theorem

_FILES = (
    "foundry.toml",
    "remappings.txt",
    "tests/contracts/foundry.base.toml",
    "tests/contracts/forge/Base.sol",
)


class Copy:
    """A copy of the project. It stays between runs so that forge need not compile everything again."""

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

    def prove_without(self, guard: Guard, theorem: Theorem, patience: int = 1) -> Outcome:
        """Prove the theorem without the guard, with `patience` times its usual time limit."""
        theorem = replace(theorem, seconds=patience * theorem.seconds)
        source = self.folder / guard.source
        text = source.read_text()
        try:
            source.write_text(text.replace(guard.code, guard.without))
            self._keep_only(theorem.source)
            provers.build(self.folder)
            return provers.prove([theorem], self.folder)[0]
        except provers.BuildFailed as error:
            return Outcome(theorem, "does not compile", 0.0, str(error))
        finally:
            source.write_text(text)

    def _keep_only(self, source: Path) -> None:
        """Remove the other theorem contracts, which Halmos would compile as well."""
        for each in (self.folder / PROOFS).rglob("*.t.sol"):
            each.unlink()
        shutil.copy2(REPOSITORY / source, self.folder / source)
