"""What the lister writes beside an agent market, in the log alone: its public id, words and labels, as canonical JSON.

Numbers that decide anything (target, bounds, times, fee) are in the market's specification, never here. Canonical
means: keys sorted, no spaces, UTF-8 as it is; so the same words are always the same bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from core.mirror.bet import market_key

ID_PATTERN = r"[a-z0-9]+(?:-[a-z0-9]+)*"
LONGEST_ID = 96

CATEGORIES = ("market_cap", "market_cap_range", "price_direction")
"""By the contract's kind: threshold, range, direction. Also the API's `targetMetric`."""


@dataclass(frozen=True, slots=True)
class OutcomeLabel:
    """One outcome, in the contract's order. `key` is what a trade names as its side."""

    key: str
    label: str
    short_label: str


@dataclass(frozen=True, slots=True)
class MarketDocument:
    """`id` is readable and unique, and its keccak256 is the contract's market id; the slug is the same text.

    series: which standing series listed it, such as `hour`; empty for a market of its own.
    """

    id: str
    question: str
    short_title: str
    summary: str
    category: str
    token_symbol: str
    token_name: str
    outcomes: tuple[OutcomeLabel, ...]
    deadline_label: str
    source: str
    source_url: str | None = None
    series: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(ID_PATTERN, self.id) or len(self.id) > LONGEST_ID:
            raise ValueError(f"{self.id!r} is not a readable id of lower-case words and digits")
        if self.category not in CATEGORIES:
            raise ValueError(f"{self.category!r} is none of {', '.join(CATEGORIES)}")
        if len({each.key for each in self.outcomes}) != len(self.outcomes) or len(self.outcomes) < 2:
            raise ValueError("a market has at least two outcomes, each with a key of its own")

    @property
    def market_id(self) -> bytes:
        """The contract's id."""
        return market_key(self.id)

    def canonical(self) -> str:
        document = {
            "category": self.category,
            "deadlineLabel": self.deadline_label,
            "id": self.id,
            "outcomes": [
                {"key": each.key, "label": each.label, "shortLabel": each.short_label} for each in self.outcomes
            ],
            "question": self.question,
            "series": self.series,
            "shortTitle": self.short_title,
            "slug": self.id,
            "source": self.source,
            "sourceUrl": self.source_url,
            "summary": self.summary,
            "tokenName": self.token_name,
            "tokenSymbol": self.token_symbol,
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def parse(cls, document: dict[str, Any]) -> MarketDocument:
        """From the JSON object; ValueError or KeyError when it is not one of ours."""
        return cls(
            id=_text(document["id"]),
            question=_text(document["question"]),
            short_title=_text(document["shortTitle"]),
            summary=_text(document["summary"]),
            category=_text(document["category"]),
            token_symbol=_text(document["tokenSymbol"]),
            token_name=_text(document["tokenName"]),
            outcomes=tuple(
                OutcomeLabel(_text(each["key"]), _text(each["label"]), _text(each["shortLabel"]))
                for each in document["outcomes"]
            ),
            deadline_label=_text(document["deadlineLabel"]),
            source=_text(document["source"]),
            source_url=None if document.get("sourceUrl") is None else _text(document["sourceUrl"]),
            series=_text(document.get("series", "")),
        )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value
