"""The claims that were checked. Each has a verdict and names the call that proves the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from core.errors import MoneyError, VpmError
from core.money import decimal_text, units_from_json


class ClaimVerdict(StrEnum):
    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "cannot be checked"


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement that was checked. `shown_by` is the call, log or arithmetic that gives the actual value."""

    what: str
    verdict: ClaimVerdict
    shown_by: str
    detail: str = ""


class NotCheckable(VpmError):
    """The subject cannot be checked at all; one sentence says why."""


@dataclass
class Findings:
    """The claims, in the order in which they were checked. A stated value can have any type. Each claim's sentence
    begins with `of`, and `source` is the default of `shown_by`."""

    claims: list[Claim] = field(default_factory=list)
    of: str = ""
    source: str = ""

    def about(self, of: str, source: str = "") -> Findings:
        return Findings(self.claims, of, source)

    def check(self, what: str, holds: bool, shown_by: str = "", detail: str = "") -> bool:
        self._add(what, ClaimVerdict.HOLDS if holds else ClaimVerdict.FAILS, shown_by, detail)
        return holds

    def unknown(self, what: str, why: str, shown_by: str = "") -> None:
        self._add(what, ClaimVerdict.UNKNOWN, shown_by, why)

    def same(self, what: str, stated: Any, actual: Any, shown_by: str = "") -> bool:
        """Compare a stated value with the actual value. A boolean never equals a number."""
        equal = stated == actual and isinstance(stated, bool) == isinstance(actual, bool)
        return self.check(what, equal, shown_by, _comparison(stated, actual, equal))

    def address(self, what: str, stated: Any, actual: str, shown_by: str = "") -> bool:
        equal = isinstance(stated, str) and stated.lower() == actual.lower()
        return self.check(what, equal, shown_by, _comparison(stated, actual, equal))

    def integer(self, what: str, stated: Any, actual: int | None, shown_by: str = "") -> bool:
        """Compare a stated number with the actual number. Documents about stock markets may state a number as text."""
        equal = actual is not None and integer_or_none(stated) == actual
        return self.check(what, equal, shown_by, _comparison(stated, actual, equal))

    def at_most(self, what: str, stated: Any, actual: int, shown_by: str = "") -> bool:
        """Check a number that can only grow. An earlier document may state a lower number, but never a higher one."""
        given = integer_or_none(stated)
        fits = given is not None and 0 <= given <= actual
        return self.check(what, fits, shown_by, f"the document says {stated}; it is now {actual}")

    def money(self, what: str, stated: Any, actual: int, shown_by: str = "", *, decimals: int = 6) -> bool:
        """Compare a JSON number from the agent surface with `actual`, an amount in the smallest unit."""
        equal = decimal_units(stated, decimals) == actual
        return self.check(what, equal, shown_by, _comparison(stated, decimal_text(actual, decimals), equal))

    def fields(
        self,
        stated: Mapping[str, Any],
        actual: Mapping[str, Any],
        compare: Callable[..., bool] = same,
        shown_by: str = "",
    ) -> None:
        """Compare each field that the document contains with the actual value. A missing field makes no claim."""
        for name, value in actual.items():
            if name in stated:
                compare(self, name, stated[name], value, shown_by)

    def _add(self, what: str, verdict: ClaimVerdict, shown_by: str, detail: str) -> None:
        self.claims.append(Claim(f"{self.of} {what}".strip(), verdict, shown_by or self.source, detail))

    @property
    def failed(self) -> int:
        return sum(claim.verdict is ClaimVerdict.FAILS for claim in self.claims)

    @property
    def unchecked(self) -> int:
        return sum(claim.verdict is ClaimVerdict.UNKNOWN for claim in self.claims)

    @property
    def exit_code(self) -> int:
        return 1 if self.failed else 3 if self.unchecked else 0

    def lines(self) -> list[str]:
        width = max((len(claim.verdict) for claim in self.claims), default=0)
        shown = []
        for claim in self.claims:
            verdict = claim.verdict.upper() if claim.verdict is ClaimVerdict.FAILS else claim.verdict
            shown.append(f"  {verdict:<{width}}  {claim.what}{': ' + claim.detail if claim.detail else ''}")
            shown.append(f"  {'':<{width}}    {claim.shown_by}")
        holding = len(self.claims) - self.failed - self.unchecked
        tail = f", {self.unchecked} cannot be checked" if self.unchecked else ""
        shown.append(f"\n{len(self.claims)} claims: {holding} hold, {self.failed} do not hold{tail}")
        return shown

    def body(self) -> list[dict[str, str]]:
        return [
            {"claim": one.what, "verdict": one.verdict.value, "shownBy": one.shown_by, "detail": one.detail}
            for one in self.claims
        ]


def integer_or_none(value: Any) -> int | None:
    """Return the integer if `value` is an integer or text of plain digits, else None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 80 and value.removeprefix("-").isascii():
        return int(value) if value.removeprefix("-").isdigit() else None
    return None


def objects(rows: Any) -> list[dict[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise NotCheckable("The document's positions are not a list of objects.")
    return rows


def decimal_units(value: Any, decimals: int) -> int | None:
    try:
        return units_from_json(value, decimals)
    except MoneyError:
        return None


def _comparison(stated: Any, actual: Any, equal: bool) -> str:
    return str(actual) if equal else f"the document says {_truncated(stated)}, but the chain says {_truncated(actual)}"


def _truncated(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 90 else text[:87] + "..."
