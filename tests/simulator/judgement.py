"""The five sentences by name, and the violations found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

LOST = "no money is lost"
DOUBLED = "none is doubled"
TRUE = "every response is true at its block"
PAID = "everything settled is paid"
AUDIT = "the audit is clean"
RAN = "the world ran"  # not of the service: of a world that shows nothing


@dataclass
class Judgement:
    found: list[tuple[str, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def against(self, sentence: str, what: str) -> None:
        self.found.append((sentence, what))
