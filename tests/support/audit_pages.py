"""Audits in small pages, so that a short history takes many."""

from __future__ import annotations

import pytest

from indexer.audit import agent, feeds, shared, stock


def audit_in_pages_of(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for stages in (agent, feeds, shared, stock):
        for name in [each for each in vars(stages) if each.endswith("_AT_ONCE")]:
            monkeypatch.setattr(stages, name, rows)
