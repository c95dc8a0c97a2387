"""What a guard is, whichever language it is written in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from core.paths import REPOSITORY

FORGE_TESTS = "tests/contracts/forge"


@dataclass(frozen=True, slots=True)
class Guard:
    """A piece of code that stops something, and the tests that claim it.

    stops: what would happen without it, as a sentence. code: its text, which stands once in `source`. without: what
    stands there in the copy. tests: pytest's names of tests or files, or for Solidity `suite.t.sol::test_name`.
    """

    stops: str
    source: str
    code: str
    without: str
    tests: tuple[str, ...]

    @property
    def is_solidity(self) -> bool:
        return self.source.endswith(".sol")

    @property
    def test_files(self) -> tuple[str, ...]:
        """The tests' files, from the project's root."""
        names = dict.fromkeys(test.partition("::")[0] for test in self.tests)
        return tuple(f"{FORGE_TESTS}/{name}" if self.is_solidity else name for name in names)

    def fingerprint(self) -> str:
        """Changes with the guard, its source and its tests: until then a result stands."""
        content = [self.stops, self.source, self.code, self.without, *self.tests]
        content += [(REPOSITORY / each).read_text() for each in (self.source, *self.test_files)]
        return hashlib.sha256("\0".join(content).encode()).hexdigest()

    def problem(self) -> str | None:
        """Why the guard cannot be taken out, or its tests not be run; None when both are as the list says."""
        text = (REPOSITORY / self.source).read_text() if (REPOSITORY / self.source).exists() else ""
        if text.count(self.code) != 1:
            return f"{self.source} holds its code {text.count(self.code)} times"
        if self.code == self.without:
            return "taking it out changes nothing"
        for test in self.tests:
            file, _, name = test.partition("::")
            path = REPOSITORY / (f"{FORGE_TESTS}/{file}" if self.is_solidity else file)
            if not path.exists():
                return f"there is no {path.relative_to(REPOSITORY)}"
            keyword = "function" if self.is_solidity else "def"
            if name and f"{keyword} {name.partition('[')[0]}(" not in path.read_text():
                return f"{file} has no {name}"
        return None
