"""The bodies of /api/cron and /api/health, for operators."""

from __future__ import annotations

from typing import Literal

from api.operations import Body
from api.stock.bodies.parts import HexHash, UnixSeconds

CronJob = Literal["open", "resolve", "deliver"]


class CronAction(Body):
    kind: str
    target: str
    status: str
    tx_hash: HexHash | None
    detail: str | None


class CronSkip(Body):
    target: str
    reason: str


class CronReport(Body):
    """What a keeper job did, skipped and failed to do. Running it again repeats nothing."""

    job: CronJob
    ok: bool
    started_at: UnixSeconds
    finished_at: UnixSeconds
    actions: list[CronAction]
    skipped: list[CronSkip]
    errors: list[str]


class CheckBody(Body):
    name: str
    ok: bool
    detail: str


class HealthBody(Body):
    """The checks of the stock markets: 200 if all pass, 503 otherwise."""

    ok: bool
    deployed: bool
    now_sec: UnixSeconds
    checks: list[CheckBody]
