"""GET /api/relay/receipt: the state of a signed bet until it is final, whoever sent the bet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from aiohttp import web
from limits import parse
from msgspec import Meta
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from sqlalchemy import and_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from api.caching import json_response
from api.context import Context
from api.database import reading
from api.head import Head, head_of
from api.limits import caller_ip
from api.operations import Body
from api.requests import read_query
from api.stock.bets import ADDRESS, BYTES32
from api.stock.bodies import HeadBody, HexHash, Integer, PositionBody, ReadAt, Stale
from api.stock.checks import not_deployed
from api.stock.facts import HeldPosition
from api.stock.index import HELD, held_position
from api.stock.market_view import head_body, position_body
from api.stock.sources import StockSources
from core.chain.heads import final_block
from core.db.engine import consistent_read
from core.db.schema.index import chain_cursor
from core.db.schema.index_shared import token_authorization
from core.db.schema.index_stock import stock_position
from core.hexadecimal import bytes_of, hex_of


class ReceiptBody(Body):
    """A bet's receipt, whoever sent it. `pending`: in no block up to `head`, and in no later one if `head` is past the
    bet's validBefore. `confirmed`: in a block that a reorganization may still replace. `final`: in a final block."""

    receipt: Literal["pending", "confirmed", "final"]
    tx_hash: HexHash | None
    block_number: Integer | None
    position: Annotated[
        PositionBody | None,
        Meta(
            description="The bet's position. Null while pending, or if its transaction opened several identical ones."
        ),
    ]
    head: HeadBody
    final_block: Annotated[Integer, Meta(description="The last final block.")]
    read_at: ReadAt
    stale: Stale


class ReceiptQuery(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True)

    from_: Annotated[str, Field(alias="from", pattern=ADDRESS, description="The signer of the bet.")]
    nonce: Annotated[str, Field(pattern=BYTES32, description="The authorization's nonce, as returned by typed-data.")]


@dataclass(frozen=True, slots=True)
class EntryReceipt:
    """The state of a signed bet as of the block `head`. `block`, `tx` and `position` are None while the bet is in no
    block. `position` is also None if the bet's transaction opened several identical positions."""

    head: Head
    final_block: int
    block: int | None = None
    tx: str | None = None
    position: HeldPosition | None = None

    @property
    def state(self) -> Literal["pending", "confirmed", "final"]:
        if self.block is None:
            return "pending"
        return "final" if self.block <= self.final_block else "confirmed"


RECEIPTS_RATE = parse("60/minute")


async def bet_receipt(context: Context, sources: StockSources, request: web.Request) -> web.StreamResponse:
    caller = caller_ip(request, context.settings)
    await context.limits.take(RECEIPTS_RATE, "receipts", caller, "Receipts are limited to 60 requests a minute.")
    query = read_query(request, ReceiptQuery)
    contracts, index = sources.contracts, sources.index
    if contracts is None:
        raise not_deployed()
    finality_blocks = context.settings.chain("stock").finality_blocks
    key = (sources.deployment.chain_id, contracts.settler.address, bytes_of(query.from_), bytes_of(query.nonce, 32))
    # Read at the block of the markets in memory, from which the accepted part of a batch is computed. After five tries,
    # the block may be another one.
    for _ in range(5):
        async with reading("This bet"), consistent_read(context.engine) as connection:
            receipt = await read_receipt(connection, *key, finality_blocks)
        snapshot = index.snapshot
        if receipt.position is None or (snapshot is not None and snapshot.head.number == receipt.head.number):
            break
        await index.refresh()
    entry = receipt.position
    market = None if entry is None else await index.market(entry.position.market_id)
    return json_response(
        ReceiptBody(
            receipt=receipt.state,
            tx_hash=receipt.tx,
            block_number=None if receipt.block is None else str(receipt.block),
            position=None if entry is None or market is None else position_body(market, entry, receipt.head.moment),
            head=head_body(receipt.head),
            final_block=str(max(0, receipt.final_block)),
            read_at=index.read_at,
            stale=index.stale or not index.readable,
        )
    )


async def read_receipt(
    connection: AsyncConnection, chain_id: int, settler: str, signer: bytes, nonce: bytes, finality_blocks: int
) -> EntryReceipt:
    spent = token_authorization.c
    paid = and_(
        spent.chain_id == chain_cursor.c.chain_id,
        spent.authorizer == signer,
        spent.nonce == nonce,
        spent.recipient == bytes_of(settler),
    )
    row = (
        await connection.execute(
            select(chain_cursor, spent.block_number, spent.at, spent.tx, spent.value)
            .outerjoin(token_authorization, paid)
            .where(chain_cursor.c.chain_id == chain_id)
        )
    ).one()
    final = final_block(row.number, row.finalized_number, finality_blocks)
    if row.tx is None:
        return EntryReceipt(head_of(row), final)
    # Positions are found by their entry time: transactions are not indexed.
    made = HELD.where(
        stock_position.c.vintage > 0,
        stock_position.c.entered_at == row.at,
        stock_position.c.entered_by == signer,
        stock_position.c.entry_tx == row.tx,
        stock_position.c.offered == row.value,
    )
    positions = [held_position(each) for each in await connection.execute(made)]
    position = positions[0] if len(positions) == 1 else None
    return EntryReceipt(head_of(row), final, row.block_number, hex_of(row.tx), position)
