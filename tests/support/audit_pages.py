"""Audits in small pages, so that a short history takes many."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from core.chain import ChainClient
from core.db.engine import Connection
from indexer.audit import rows, views
from indexer.audit.rows import AuditStage, Comparison, take_snapshot
from indexer.audit.run import compare_page, stages
from indexer.sources import Sources


def audit_in_pages_of(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rows, views):
        for name in [each for each in vars(module) if each.endswith("_AT_ONCE")]:
            monkeypatch.setattr(module, name, size)


async def compare(
    connection: Connection, client: ChainClient, sources: Sources, some: Sequence[AuditStage] = ()
) -> Comparison:
    """Compare the tables as the caller's transaction sees them with the chain at their cursor's block, by all stages or
    by some."""
    snapshot = await take_snapshot(connection, client, sources, Comparison())
    for stage in some or stages():
        place = await compare_page(stage, snapshot, None)
        while place is not None:
            place = await compare_page(stage, snapshot, place)
    return snapshot.comparison
