"""Audits in small pages, so that a short history takes many."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from core.chain import ChainClient
from core.db.engine import Connection
from indexer.audit import chain, feeds, folded, pages, views
from indexer.audit.compare import Comparison
from indexer.audit.pages import AuditStage
from indexer.audit.run import compare_page, stages_of, take_snapshot
from indexer.sources import Sources


def audit_in_pages_of(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for stages in (chain, feeds, folded, pages, views):
        for name in [each for each in vars(stages) if each.endswith("_AT_ONCE")]:
            monkeypatch.setattr(stages, name, rows)


async def compare(
    connection: Connection, client: ChainClient, sources: Sources, some: Sequence[AuditStage] = ()
) -> Comparison:
    """Compare the tables as the caller's transaction sees them with the chain at their cursor's block, by all stages or
    by some."""
    scene = await take_snapshot(connection, client, sources, Comparison())
    for stage in some or stages_of(sources):
        place = await compare_page(stage, scene, None)
        while place is not None:
            place = await compare_page(stage, scene, place)
    return scene.comparison
