"""One audit of one chain: page after page, each a snapshot of the tables against views at the snapshot's block.

How far it got is a row of `chain_audit_progress`, written with each page, so an audit that was stopped goes on there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import psycopg
from psycopg.types.json import Jsonb

from core.chain import ChainClient, Contract
from core.chain.errors import RpcError, RpcErrorKind
from core.contracts.abi import abi
from core.contracts.events import Role
from core.db.engine import Connection, ConnectionPool
from core.db.leader import lock_key
from core.hexadecimal import hex_of
from core.stock.vested import Moment
from indexer.audit import agent, chain, feeds, folded, stock, totals
from indexer.audit.compare import Comparison
from indexer.audit.pages import AuditStage, Place, Scene, View, compare_views, whole
from indexer.bloom import BloomTest
from indexer.completeness import LogCompleteness
from indexer.errors import AuditRuns, NodeFault
from indexer.fetch import Fetcher
from indexer.fold.venues import GUARDIAN
from indexer.node import RpcNode
from indexer.sources import Sources
from indexer.store.cursor import known_feeds
from indexer.store.tables import all_rows

ABIS = {
    Role.SETTLER: "VestedMarkets",
    Role.RESOLVER: "RoundResolver",
    Role.LISTER: "MarketLister",
    Role.WALLET: "SettlementWallet",
    Role.AGENT_RESOLVER: "FeedResolver",
    Role.AGENT_LISTER: "AgentLister",
    Role.PAUSER: "Pauser",
    Role.TOKEN: "IERC3009",
}
PAGE_TRIES = 3
"""A page whose block a reorganization took is compared again, at another."""
RETRY_SECONDS = 1.0
GOES_ON_FOR = timedelta(days=7)
"""What an audit compared longer ago than this says little of today: it is begun anew."""

_FORGET = """
DELETE FROM chain_audit_progress WHERE chain_id = %(chain)s AND (%(anew)s OR began_at < now() - %(old)s)
"""
_START = """
INSERT INTO chain_audit_progress (chain_id, stage, first_block, compared, mismatches, detail)
VALUES (%s, %s, %s, 0, 0, '[]')
"""
_READ = """
SELECT stage, place, first_block, compared, mismatches, detail, began_at FROM chain_audit_progress WHERE chain_id = %s
"""
_KEEP = """
UPDATE chain_audit_progress SET stage = %s, place = %s, compared = %s, mismatches = %s, detail = %s, paged_at = now()
WHERE chain_id = %s
"""
_FINISH = """
INSERT INTO chain_audit (chain_id, began_at, first_block, block_number, block_hash, compared, mismatches, detail)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
"""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """A finished audit: between which blocks its pages lay, and what they found."""

    began_at: datetime
    first_block: int
    last_block: int
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an audit is, between two pages."""

    stage: str
    place: Place | None
    first_block: int
    comparison: Comparison
    began_at: datetime


def stages_of(sources: Sources) -> list[AuditStage]:
    """In the order they are gone through. Names and places are kept between processes: a stage whose places change
    their meaning needs another name."""
    roles = list(sources.contracts)
    stages = chain.stages() + folded.stages(roles) + totals.stages(roles)
    stages += stock.stages() if Role.SETTLER in roles else []
    stages += agent.stages() if Role.WALLET in roles else []
    stages += [whole("guardians", _guardians, of_views=True)] if Role.PAUSER in roles else []
    return stages + feeds.stages()


async def _guardians(scene: Scene) -> None:
    rows = [row for row in await all_rows(scene.connection, GUARDIAN) if row.chain_id == scene.sources.chain_id]
    await compare_views(
        scene,
        (View("guardian", r.account, Role.PAUSER, "isGuardian", (hex_of(r.account),), r.allowed) for r in rows),
    )


async def audit(
    pool: ConnectionPool,
    client: ChainClient,
    sources: Sources,
    *,
    anew: bool = False,
    going_on: Callable[[Progress], None] = lambda _so_far: None,
    progress: Callable[[Progress], None] = lambda _so_far: None,
) -> AuditReport:
    """Goes on with the audit that was stopped last, of which `going_on` is told, or begins one; `progress` is told how
    far it is after each page. What was found is kept in `chain_audit`."""
    async with pool.connection() as connection, _transaction_each(connection), _alone(connection, sources):
        await connection.execute(_FORGET, {"chain": sources.chain_id, "anew": anew, "old": GOES_ON_FOR})
        if stopped := await _progress(connection, sources, [stage.name for stage in stages_of(sources)]):
            going_on(stopped)
        tries = 0
        while True:
            try:
                done = await _next_page(connection, client, sources, progress)
            except (NodeFault, RpcError, psycopg.errors.SerializationFailure):
                tries += 1
                if tries == PAGE_TRIES:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if done is not None:
                return done
            tries = 0


# ---------------------------------------------------------------- a page


async def _next_page(
    connection: Connection, client: ChainClient, sources: Sources, progress: Callable[[Progress], None]
) -> AuditReport | None:
    """Compares a page and keeps how far that is, or neither; the report after the last one."""
    stages = {stage.name: stage for stage in stages_of(sources)}
    names = list(stages)
    async with connection.transaction():
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        so_far = await _progress(connection, sources, names)
        scene = await scene_of(connection, client, sources, so_far.comparison if so_far else Comparison())
        if so_far is None:
            await connection.execute("DELETE FROM chain_audit_progress WHERE chain_id = %s", (sources.chain_id,))
            await connection.execute(_START, (sources.chain_id, names[0], scene.number))
            so_far = await _progress(connection, sources, names)
            assert so_far is not None
        place = await compare_page(stages[so_far.stage], scene, so_far.place)
        now_at = so_far.stage
        if place is None:
            following = names[names.index(so_far.stage) + 1 :]
            if not following:
                return await _finish(scene, so_far)
            now_at = following[0]
        comparison = scene.comparison
        kept = (Jsonb(place), comparison.compared, comparison.mismatches, Jsonb(comparison.detail))
        await connection.execute(_KEEP, (now_at, *kept, sources.chain_id))
    progress(Progress(now_at, place, so_far.first_block, comparison, so_far.began_at))
    return None


async def compare_page(stage: AuditStage, scene: Scene, after: Place | None) -> Place | None:
    """The views say nothing of rows that are not what their logs make: these are rebuilt first."""
    if stage.of_views and scene.comparison.mismatches:
        return None
    return await stage.page(scene, after)


async def _progress(connection: Connection, sources: Sources, stages: list[str]) -> Progress | None:
    """How far the audit is that is under way, if one is, in stages we know."""
    row = await (await connection.execute(_READ, (sources.chain_id,))).fetchone()
    if row is None:
        return None
    stage, place, first_block, compared, mismatches, detail, began_at = row
    if stage not in stages:
        return None
    return Progress(stage, place, first_block, Comparison(compared, mismatches, detail), began_at)


async def _finish(scene: Scene, so_far: Progress) -> AuditReport:
    result, chain_id = scene.comparison, scene.sources.chain_id
    values = (chain_id, so_far.began_at, so_far.first_block, scene.number, scene.digest)
    await scene.connection.execute(_FINISH, (*values, result.compared, result.mismatches, Jsonb(result.detail)))
    await scene.connection.execute("DELETE FROM chain_audit_progress WHERE chain_id = %s", (chain_id,))
    return AuditReport(so_far.began_at, so_far.first_block, scene.number, result)


@asynccontextmanager
async def _transaction_each(connection: Connection) -> AsyncIterator[None]:
    """Nothing outside a page's transaction opens one."""
    before = connection.autocommit
    await connection.set_autocommit(True)
    try:
        yield
    finally:
        if not connection.closed:
            await connection.set_autocommit(before)


@asynccontextmanager
async def _alone(connection: Connection, sources: Sources) -> AsyncIterator[None]:
    """Two would each undo what the other wrote of how far it is."""
    key = lock_key(f"audit:{sources.name}")
    row = await (await connection.execute("SELECT pg_try_advisory_lock(%s)", (key,))).fetchone()
    assert row is not None
    if not row[0]:
        raise AuditRuns(f"Another audit of the {sources.name} chain is running on this database.")
    try:
        yield
    finally:
        if not connection.closed:
            await connection.execute("SELECT pg_advisory_unlock(%s)", (key,))


async def scene_of(connection: Connection, client: ChainClient, sources: Sources, comparison: Comparison) -> Scene:
    """The tables as the caller's transaction sees them, and the chain at their cursor's block."""
    await connection.execute("SET LOCAL statement_timeout = 0")
    number, digest, now = await _moment(connection, sources)
    comparison.block = number
    sources = replace(sources, feeds=await known_feeds(connection, sources.chain_id))
    node = RpcNode(client.provider)
    fetcher = Fetcher(node, sources, BloomTest(sources), LogCompleteness(node, sources.name))
    addresses = dict(sources.contracts)
    if sources.token is not None:
        addresses[Role.TOKEN] = sources.token
    contracts = {role: Contract(hex_of(addresses[role]), abi(name)) for role, name in ABIS.items() if role in addresses}
    scene = Scene(connection, client, fetcher, sources, contracts, number, digest, now, comparison)
    await _check_node(client, number, scene.block)
    return scene


async def _moment(connection: Connection, sources: Sources) -> tuple[int, bytes, Moment]:
    row = await (
        await connection.execute(
            "SELECT number, hash, l1_block_number, block_time FROM chain_cursor WHERE chain_id = %s",
            (sources.chain_id,),
        )
    ).fetchone()
    if row is None or row[1] is None:
        raise NodeFault(f"Chain {sources.chain_id} has not been indexed yet; there is nothing to audit.")
    number, digest, l1_number, time = row
    assert isinstance(number, int)
    assert isinstance(digest, bytes)
    assert isinstance(l1_number, int)
    assert isinstance(time, int)
    return number, digest, Moment(l1_number, time)


async def _check_node(client: ChainClient, number: int, block: str) -> None:
    """The node must have the very block the tables are at."""
    try:
        header = await client.block(block)
    except RpcError as error:
        if error.kind is not RpcErrorKind.BLOCK_NOT_FOUND:
            raise
        header = None
    if header is None:
        raise NodeFault(f"The node does not have block {number} as indexed ({block}); let the indexer catch up first.")
