"""The body of /api/health."""

from __future__ import annotations

from api.http.body import Body
from api.stock.bodies.parts import UnixSeconds


class CheckBody(Body):
    name: str
    ok: bool
    detail: str


class HealthBody(Body):
    """The checks of the stock markets: 200 when every one holds, 503 otherwise."""

    ok: bool
    deployed: bool
    now_sec: UnixSeconds
    checks: list[CheckBody]
