"""GET /api/relay/receipt: the state of a signed bet until it is final, whoever sent the bet."""

from __future__ import annotations

from aiohttp import web
from limits import parse

from api.caching import json_response
from api.context import Context
from api.database import reading
from api.limits import caller_ip
from api.problems import Problem
from api.requests import read_query
from api.stock.bodies.relay import ReceiptBody
from api.stock.facts import EntryReceipt
from api.stock.index import StockIndex
from api.stock.market_view import head_body, position_body
from api.stock.requests import ReceiptQuery
from api.stock.rows import read_receipt
from api.stock.sources import StockSources
from core.db.engine import consistent_read
from core.hexadecimal import bytes_of

RECEIPTS_RATE = parse("60/minute")


class BetReceipts:
    """The receipts of signed bets, by signer and nonce."""

    def __init__(self, context: Context, sources: StockSources) -> None:
        self._settings = context.settings
        self._chain_id = sources.deployment.chain_id
        self._finality_blocks = context.settings.chain("stock").finality_blocks
        self._contracts = sources.contracts
        self._index = sources.index
        self._engine = context.engine
        self._limits = context.limits

    async def get(self, request: web.Request) -> web.StreamResponse:
        caller = caller_ip(request, self._settings)
        await self._limits.take(RECEIPTS_RATE, "receipts", caller, "Receipts are limited to 60 requests a minute.")
        query = read_query(request, ReceiptQuery)
        if self._contracts is None or self._index is None:
            raise Problem(503, "not_deployed", "The stock markets are not deployed yet; there are no bets.")
        signer, nonce = bytes_of(query.from_), bytes_of(query.nonce, 32)
        receipt = await self._receipt(self._index, self._contracts.settler.address, signer, nonce)
        entry = receipt.position
        market = None if entry is None else await self._index.market(entry.position.market_id)
        return json_response(
            ReceiptBody(
                receipt=receipt.state,
                tx_hash=receipt.tx,
                block_number=None if receipt.block is None else str(receipt.block),
                position=None if entry is None or market is None else position_body(market, entry, receipt.head.moment),
                head=head_body(receipt.head),
                final_block=str(max(0, receipt.final_block)),
                read_at=self._index.read_at,
                stale=self._index.stale or not self._index.readable,
            )
        )

    async def _receipt(self, index: StockIndex, settler: str, signer: bytes, nonce: bytes) -> EntryReceipt:
        """Read the receipt at the block of the markets in memory, because the accepted part of a batch is computed from
        its market at that block. After five tries, return the last receipt, whatever its block."""
        tries = 0
        while True:
            tries += 1
            async with reading("This bet"), consistent_read(self._engine) as connection:
                receipt = await read_receipt(connection, self._chain_id, settler, signer, nonce, self._finality_blocks)
            snapshot = index.snapshot
            is_same = snapshot is not None and snapshot.head.number == receipt.head.number
            if receipt.position is None or is_same or tries == 5:
                return receipt
            await index.refresh()
