"""The exception with which handlers refuse requests."""

from __future__ import annotations

from api.problems import Problem


def test_every_429_has_retry_after() -> None:
    assert int(Problem(429, "rate_limited", "Too many.").headers["Retry-After"]) > 0
    assert Problem(429, "rate_limited", "Too many.", headers={"Retry-After": "7"}).headers == {"Retry-After": "7"}
    assert Problem(400, "invalid_request", "No.").headers == {}
