"""The report of a run: what it did, skipped and failed at. The cron endpoint returns it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from core.iso import iso_datetime

SKIPPED_SHOWN = 200
"""The limit in a body: thousands of positions may be skipped for the same reason."""


@dataclass(frozen=True, slots=True)
class Action:
    """A submitted transaction. `status` is the intent's state, or `dry-run` if nothing was submitted."""

    kind: str
    target: str
    status: str
    detail: str
    tx_hash: str | None = None
    intent_id: int | None = None

    def body(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "target": self.target,
            "status": self.status,
            "txHash": self.tx_hash,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Skipped:
    """A target that the run left alone, with the reason."""

    target: str
    reason: str

    def body(self) -> dict[str, Any]:
        return {"target": self.target, "reason": self.reason}


@dataclass(slots=True)
class RunReport:
    job: str
    started_at: datetime
    finished_at: datetime | None = None
    actions: list[Action] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.errors

    def skip(self, target: str, reason: str) -> None:
        self.skipped.append(Skipped(target, reason))

    def skip_all(self, targets: Sequence[str], reason: str) -> None:
        self.skipped += [Skipped(target, reason) for target in targets]

    def update(self, position: int, status: str, tx_hash: str | None) -> None:
        self.actions[position] = replace(self.actions[position], status=status, tx_hash=tx_hash)

    def body(self) -> dict[str, Any]:
        left = [each.body() for each in self.skipped[:SKIPPED_SHOWN]]
        if len(self.skipped) > SKIPPED_SHOWN:
            left.append({"target": "others", "reason": f"{len(self.skipped) - SKIPPED_SHOWN} more are not listed"})
        return {
            "job": self.job,
            "ok": self.ok,
            "startedAt": iso_datetime(self.started_at),
            "finishedAt": iso_datetime(self.finished_at) if self.finished_at else None,
            "actions": [each.body() for each in self.actions],
            "skipped": left,
            "errors": list(self.errors),
        }
