"""The bodies of /api/cron."""

from __future__ import annotations

from typing import Literal

from api.http.body import Body
from api.stock.bodies.parts import Hash, Seconds

Job = Literal["open", "resolve", "deliver"]


class CronAction(Body):
    kind: str
    target: str
    status: str
    tx_hash: Hash | None
    detail: str | None


class CronSkip(Body):
    target: str
    reason: str


class CronReport(Body):
    """What the keeper's job did, left out and failed at. Running it again changes nothing that was done."""

    job: Job
    ok: bool
    started_at: Seconds
    finished_at: Seconds
    actions: list[CronAction]
    skipped: list[CronSkip]
    errors: list[str]
