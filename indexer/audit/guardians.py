"""What a chain's pauser says of its guardians, against their table."""

from __future__ import annotations

from core.contracts.events import Role
from core.hexadecimal import hex_of
from indexer.audit.pages import AuditStage, Scene, whole
from indexer.fold.venues import GUARDIAN
from indexer.store.tables import all_rows


def stages() -> list[AuditStage]:
    return [whole("guardians", _guardians, of_views=True)]


async def _guardians(scene: Scene) -> None:
    pauser = scene.contracts[Role.PAUSER]
    rows = [row for row in await all_rows(scene.connection, GUARDIAN) if row.chain_id == scene.sources.chain_id]
    answers = await scene.read(*(pauser.call("isGuardian", hex_of(row.account)) for row in rows))
    for row, answer in zip(rows, answers, strict=True):
        scene.comparison.value("guardian", row.account, "allowed", row.allowed, answer)
