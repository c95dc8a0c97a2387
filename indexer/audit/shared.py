"""What both sides' audits share: that no row is missing which the raw logs call for, payments against the token's own
receipts, and the pauser.

Where a contract counts something, its count says whether a row is missing. Roles, feeds, guardians, sweeps and
authorizations are counted by nobody, so there the raw logs say it. Rounds: see indexer.audit.feeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from core.addresses import address_text
from core.chain import ChainClient, Contract, Receipt
from core.contracts.events import Role
from core.contracts.events.agent import AGENT_VENUE
from core.contracts.events.pauser import PAUSER
from core.contracts.events.stock import STOCK_VENUE
from core.contracts.events.token import AUTHORIZATION_CANCELED, AUTHORIZATION_USED, TRANSFER
from core.db.schema.index_agent import agent_fee_sweep, agent_venue
from core.db.schema.index_stock import stock_fee_sweep, stock_venue
from indexer.audit.compare import Comparison
from indexer.audit.feeds import audit_feeds
from indexer.fold.payments import AUTHORIZATION, CANCELED, PAID, UNPAIRED
from indexer.fold.rows import RowKind
from indexer.fold.venues import GUARDIAN, VENUE_KINDS, VenueFold
from indexer.sources import Sources
from indexer.store.steps import stored_logs
from indexer.store.tables import Connection, all_rows, rows_by_key

AUTHORIZATIONS_AT_ONCE = 200

_MISSING_AUTHORIZATIONS = """
SELECT l.block_number, l.log_index FROM chain_log l WHERE l.chain_id = %(chain)s
AND substring(l.topics FROM 1 FOR 32) = ANY(%(topics)s) AND NOT EXISTS (SELECT FROM token_authorization a
  WHERE a.chain_id = l.chain_id AND a.block_number = l.block_number AND a.log_index = l.log_index)
"""


async def audit_shared(
    connection: Connection,
    client: ChainClient,
    contracts: Mapping[Role, Contract],
    sources: Sources,
    block: str,
    comparison: Comparison,
) -> None:
    """`block` is the cursor's hash."""
    await _venues(connection, sources, comparison)
    await audit_feeds(connection, client, sources, block, comparison)
    if Role.PAUSER in contracts:
        await _guardians(connection, client, contracts[Role.PAUSER], sources, block, comparison)
    if Role.TOKEN in contracts:
        values = {"chain": sources.chain_id, "topics": [AUTHORIZATION_USED.topic, AUTHORIZATION_CANCELED.topic]}
        comparison.keys("authorization", [], await _places(connection, _MISSING_AUTHORIZATIONS, values))
        await _authorizations(connection, client, contracts[Role.TOKEN], sources, block, comparison)


# ---------------------------------------------------------------- rows that follow from raw logs


async def _venues(connection: Connection, sources: Sources, comparison: Comparison) -> None:
    """Roles, feeds, bounds, guardians, sweeps: few enough to be folded again whole, and every row is held to it."""
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
        swept = await _number(connection, f"SELECT coalesce(sum(amount), 0) FROM {sweeps.name}")  # noqa: S608
        total = await _number(connection, f"SELECT coalesce(sum(fees_swept), 0) FROM {venue.name}")  # noqa: S608
        comparison.value(sweeps.name, "", "sum", swept, total)


def _by_key(kind: RowKind, rows: Sequence[tuple[Any, ...]], chain_id: int) -> dict[tuple[Any, ...], dict[str, Any]]:
    named = (dict(zip(kind.columns, row, strict=True)) for row in rows)
    ours = (row for row in named if row.get("chain_id", chain_id) == chain_id)
    return {tuple(row[name] for name in kind.key): row for row in ours}


async def _guardians(
    connection: Connection, client: ChainClient, pauser: Contract, sources: Sources, block: str, comparison: Comparison
) -> None:
    rows = [row for row in await all_rows(connection, GUARDIAN) if row.chain_id == sources.chain_id]
    answers = await client.read_many([pauser.call("isGuardian", address_text(row.account)) for row in rows], block)
    for row, answer in zip(rows, answers, strict=True):
        comparison.value("guardian", row.account, "allowed", row.allowed, answer)


# ---------------------------------------------------------------- payments


async def _authorizations(
    connection: Connection, client: ChainClient, token: Contract, sources: Sources, block: str, comparison: Comparison
) -> None:
    """Every row against what the token itself says in the transaction that the row names."""
    query = (
        "SELECT chain_id, authorizer, nonce FROM token_authorization WHERE chain_id = %s"
        " ORDER BY block_number, log_index"
    )
    keys = await (await connection.execute(query, (sources.chain_id,))).fetchall()
    for at in range(0, len(keys), AUTHORIZATIONS_AT_ONCE):
        some = keys[at : at + AUTHORIZATIONS_AT_ONCE]
        rows = await rows_by_key(connection, AUTHORIZATION, AUTHORIZATION.key, some)
        calls = [token.call("authorizationState", address_text(row.authorizer), row.nonce) for row in rows]
        spent = await client.read_many(calls, block)
        receipts = await client.receipts([_hex(row.tx) for row in rows])
        for row, state, receipt in zip(rows, spent, receipts, strict=True):
            key = (row.authorizer, row.nonce)
            comparison.value("authorization", key, "spent", True, state)
            ours = (row.state, row.value, row.recipient, row.block_number, row.log_index)
            comparison.value("authorization", key, "payment", ours, _said(row, receipt, sources))


def _said(row: Any, receipt: Receipt | None, sources: Sources) -> tuple[Any, ...]:
    """What became of an authorization by the logs of a transaction, in the words of the tables."""
    if receipt is None:
        return ("no receipt",)
    logs = {int(each.log_index, 16): each for each in receipt.logs if each.address.lower() == _hex(row.token)}
    payer, nonce = _topic(row.authorizer), _hex(row.nonce)
    for index, log in logs.items():
        place = (receipt.block_number, index)
        if log.topics == (_hex(AUTHORIZATION_CANCELED.topic), payer, nonce):
            return (CANCELED, None, None, *place)
        if log.topics == (_hex(AUTHORIZATION_USED.topic), payer, nonce):
            after = logs.get(index + 1)
            ours = {_topic(each): each for each in sources.contracts.values()}
            if after is not None and after.topics[:2] == (_hex(TRANSFER.topic), payer) and after.topics[2] in ours:
                return (PAID, int(after.data, 16), ours[after.topics[2]], *place)
            return (UNPAIRED, None, None, *place)
    return ("never used or canceled there",)


def _hex(value: bytes) -> str:
    return "0x" + value.hex()


def _topic(address: bytes) -> str:
    return "0x" + bytes(12).hex() + address.hex()


async def _places(connection: Connection, query: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return await (await connection.execute(query.encode(), values)).fetchall()


async def _number(connection: Connection, query: str) -> int:
    row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return int(row[0])
