"""What both sides' audits share: that no row is missing which the raw logs call for, payments against the token's own
receipts, and the pauser.

Where a contract counts something, its count says whether a row is missing. Roles, feeds, guardians, sweeps and
authorizations are counted by nobody, so there the raw logs say it. Rounds: see indexer.audit.feeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from core.chain import Receipt
from core.contracts.events import Role
from core.contracts.events.agent import AGENT_VENUE
from core.contracts.events.feed import FEED_EVENTS
from core.contracts.events.pauser import PAUSER
from core.contracts.events.stock import STOCK_VENUE
from core.contracts.events.token import AUTHORIZATION_CANCELED, AUTHORIZATION_USED, TRANSFER
from core.db.schema.index_agent import agent_fee_sweep, agent_venue
from core.db.schema.index_shared import oracle_measure, oracle_round, token_authorization
from core.db.schema.index_stock import stock_fee_sweep, stock_venue
from core.hexadecimal import hex_of
from indexer.audit.pages import AuditStage, Place, Scene, whole
from indexer.fold.payments import AUTHORIZATION, CANCELED, PAID, UNPAIRED
from indexer.fold.rows import RowKind
from indexer.fold.venues import GUARDIAN, VENUE_KINDS, VenueFold
from indexer.sources import Sources, as_topic
from indexer.store.steps import stored_logs
from indexer.store.tables import all_rows, rows_after

AUTHORIZATIONS_AT_ONCE = 200
LOGS_AT_ONCE = 20_000

_LAST_OF_LOGS = b"""
SELECT block_number, log_index FROM chain_log WHERE chain_id = %(chain)s
AND (block_number, log_index) > (%(block)s, %(index)s) ORDER BY block_number, log_index OFFSET %(some)s - 1 LIMIT 1
"""
_BETWEEN = """
{0}.chain_id = %(chain)s AND ({0}.block_number, {0}.log_index) > (%(block)s, %(index)s)
AND ({0}.block_number, {0}.log_index) <= (%(last_block)s, %(last_index)s)
"""
_MISSING = """
SELECT l.block_number, l.log_index FROM chain_log l WHERE {of_logs}
AND substring(l.topics FROM 1 FOR 32) = ANY(%(topics)s)
AND NOT EXISTS (SELECT FROM {table} r WHERE {of_rows}
  AND r.block_number = l.block_number AND r.log_index = l.log_index)
"""
_BASELESS = """
SELECT r.block_number, r.log_index FROM {table} r WHERE {of_rows} AND NOT EXISTS (SELECT FROM chain_log l
  WHERE {of_logs} AND r.block_number = l.block_number AND r.log_index = l.log_index)
"""
_AFTER_ALL = (2**63 - 1, 2**31 - 1)


def stages() -> list[AuditStage]:
    return [
        whole("venues", _venues),
        whole("guardians", _guardians),
        AuditStage("raw logs", _logs_page),
        AuditStage("authorizations", _authorizations_page),
    ]


# ---------------------------------------------------------------- rows that follow from raw logs


async def _venues(scene: Scene) -> None:
    """Roles, feeds, bounds, guardians, sweeps: few enough to be folded again whole, and every row is held to it."""
    connection, sources, comparison = scene.connection, scene.sources, scene.comparison
    entities = [STOCK_VENUE] if Role.SETTLER in sources.contracts else []
    entities += [AGENT_VENUE] if Role.WALLET in sources.contracts else []
    entities += [PAUSER] if Role.PAUSER in sources.contracts else []
    fold = VenueFold(sources.chain_id)
    async with aclosing(stored_logs(connection, sources, entities)) as logs:
        async for log in logs:
            fold.apply(log)
    folded = {write.table.name: write.added for write in fold.writes()}
    for kind in (each for entity in entities for each in VENUE_KINDS[entity]):
        ours = _by_key(kind, [kind.values(row) for row in await all_rows(connection, kind)], sources.chain_id)
        expected = _by_key(kind, folded.get(kind.table.name, []), sources.chain_id)
        comparison.keys(kind.table.name, ours, expected)
        for key in ours.keys() & expected.keys():
            comparison.fields(kind.table.name, key, ours[key], expected[key])
    for sweeps, venue in ((stock_fee_sweep, stock_venue), (agent_fee_sweep, agent_venue)):
        (swept,) = await scene.row(f"SELECT coalesce(sum(amount), 0) FROM {sweeps.name}".encode())  # noqa: S608
        (total,) = await scene.row(f"SELECT coalesce(sum(fees_swept), 0) FROM {venue.name}".encode())  # noqa: S608
        comparison.value(sweeps.name, "", "sum", swept, total)


def _by_key(kind: RowKind, rows: Sequence[tuple[Any, ...]], chain_id: int) -> dict[tuple[Any, ...], dict[str, Any]]:
    named = (dict(zip(kind.columns, row, strict=True)) for row in rows)
    ours = (row for row in named if row.get("chain_id", chain_id) == chain_id)
    return {tuple(row[name] for name in kind.key): row for row in ours}


async def _guardians(scene: Scene) -> None:
    pauser = scene.contracts.get(Role.PAUSER)
    if pauser is None:
        return
    rows = [row for row in await all_rows(scene.connection, GUARDIAN) if row.chain_id == scene.sources.chain_id]
    answers = await scene.read(*(pauser.call("isGuardian", hex_of(row.account)) for row in rows))
    for row, answer in zip(rows, answers, strict=True):
        scene.comparison.value("guardian", row.account, "allowed", row.allowed, answer)


async def _logs_page(scene: Scene, after: Place | None) -> Place | None:
    """Logs that call for an authorization, a round or a measure, and rounds and measures without a log. The last page
    has no end: a row may stand behind the last log."""
    block, index = after or (-1, -1)
    values: dict[str, Any] = {"chain": scene.sources.chain_id, "block": block, "index": index, "some": LOGS_AT_ONCE}
    page_end = await scene.rows(_LAST_OF_LOGS, values)
    last = tuple(page_end[0]) if page_end else _AFTER_ALL
    values |= {"last_block": last[0], "last_index": last[1]}
    if Role.TOKEN in scene.contracts:
        topics = [AUTHORIZATION_USED.topic, AUTHORIZATION_CANCELED.topic]
        missing = await scene.rows(_in_range(_MISSING, token_authorization.name), {**values, "topics": topics})
        scene.comparison.keys("authorization", [], missing)
    for topic, layout in FEED_EVENTS.items():
        what, table = _TABLES_OF_FEEDS[layout.name]
        missing = await scene.rows(_in_range(_MISSING, table), {**values, "topics": [topic]})
        scene.comparison.keys(what, [], missing)
        scene.comparison.keys(what, await scene.rows(_in_range(_BASELESS, table), values), [])
    return list(last) if page_end else None


_TABLES_OF_FEEDS = {"AnswerUpdated": ("round", oracle_round.name), "ReadingMeasured": ("measure", oracle_measure.name)}


def _in_range(query: str, table: str) -> bytes:
    """The range is said of both tables, so that none is read beyond it."""
    return query.format(table=table, of_logs=_BETWEEN.format("l"), of_rows=_BETWEEN.format("r")).encode()


# ---------------------------------------------------------------- payments


async def _authorizations_page(scene: Scene, after: Place | None) -> Place | None:
    """Every row against what the token itself says in the transaction that the row names."""
    token, chain_id = scene.contracts.get(Role.TOKEN), scene.sources.chain_id
    if token is None:
        return None
    key = ("chain_id", "block_number", "log_index")
    place = [chain_id, *(after or (-1, -1))]
    page = await rows_after(scene.connection, AUTHORIZATION, key, place, AUTHORIZATIONS_AT_ONCE)
    rows = [row for row in page if row.chain_id == chain_id]
    if not rows:
        return None
    spent = await scene.read(*(token.call("authorizationState", hex_of(row.authorizer), row.nonce) for row in rows))
    receipts = await scene.client.receipts([hex_of(row.tx) for row in rows])
    for row, state, receipt in zip(rows, spent, receipts, strict=True):
        one = (row.authorizer, row.nonce)
        scene.comparison.value("authorization", one, "spent", True, state)
        ours = (row.state, row.value, row.recipient, row.block_number, row.log_index)
        scene.comparison.value("authorization", one, "payment", ours, _said(row, receipt, scene.sources))
    return [rows[-1].block_number, rows[-1].log_index]


def _said(row: Any, receipt: Receipt | None, sources: Sources) -> tuple[Any, ...]:
    """What became of an authorization by the logs of a transaction, in the words of the tables."""
    if receipt is None:
        return ("no receipt",)
    logs = {int(each.log_index, 16): each for each in receipt.logs if each.address.lower() == hex_of(row.token)}
    payer, nonce = as_topic(row.authorizer), hex_of(row.nonce)
    for index, log in logs.items():
        place = (receipt.block_number, index)
        if log.topics == (hex_of(AUTHORIZATION_CANCELED.topic), payer, nonce):
            return (CANCELED, None, None, *place)
        if log.topics == (hex_of(AUTHORIZATION_USED.topic), payer, nonce):
            after = logs.get(index + 1)
            ours = {as_topic(each): each for each in sources.contracts.values()}
            if after is not None and after.topics[:2] == (hex_of(TRANSFER.topic), payer) and after.topics[2] in ours:
                return (PAID, int(after.data, 16), ours[after.topics[2]], *place)
            return (UNPAIRED, None, None, *place)
    return ("never used or canceled there",)
