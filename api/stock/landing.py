"""The chain's state for a bet: the facts that the bet is checked against, the transaction that placed it, and its
position.

The nodes behind one address may be some blocks apart, and each request may reach a different node. A check that a bet
is not on the chain therefore names a block that is no older than any block seen so far. It never asks for "latest".
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, select
from sqlalchemy.ext.asyncio import AsyncEngine

from api.database import DATABASE_ERRORS
from api.stock.bets import StockBet
from api.stock.chain import StockContracts
from core.chain import Call, ChainClient, ContractReverted, Receipt, RpcError, RpcErrorKind, checksum, values
from core.chain.wire import data_bytes
from core.contracts.events.shared import AUTHORIZATION_CANCELED, AUTHORIZATION_USED
from core.contracts.events.stock import ENTERED
from core.contracts.statuses import StockMarketStatus
from core.db.schema.index import chain_cursor
from core.db.schema.index_shared import token_authorization
from core.hexadecimal import bytes_of, hex_of

SPENT_TOPICS = tuple(hex_of(each.topic) for each in (AUTHORIZATION_USED, AUTHORIZATION_CANCELED))

# A bet is valid for an hour at most, so its landing lies no further back. Ranges are kept to what nodes answer.
_MAX_SEARCH_BLOCKS = 40_000
_SEARCH_STEP_BLOCKS = 5_000


@dataclass(frozen=True, slots=True)
class ChainFacts:
    """The chain's state for a bet, all read at one block. `market`: None for an id that was never listed. `room`: the
    amount that the bet's side still takes; all bets of that block share it. `refusal`: the revert of the call that
    places the bet, if the call was simulated."""

    block: int
    timestamp: int
    market: dict[str, Any] | None
    room: int
    entries_paused: bool
    signer_has_code: bool
    authorization_used: bool
    balance: int
    refusal: ContractReverted | None


async def read_facts(
    client: ChainClient, contracts: StockContracts, bet: StockBet, call: Call | None, timeout_seconds: float
) -> ChainFacts:
    """Read the facts about a bet. If `call`, which places the bet, is given, simulate it on the same block. Raise
    RpcError if no node answers."""
    calls = [
        contracts.settler.call("market", bet.market_id),
        contracts.settler.call("books", bet.market_id),
        contracts.settler.call("entriesPaused"),
        contracts.token.call("authorizationState", bet.signer, bet.nonce),
        contracts.token.call("balanceOf", bet.signer),
    ]
    if call is not None:
        calls.append(call)
    head, code, (market, books, *answers) = await client.read_newest(bet.signer, calls, timeout_seconds=timeout_seconds)
    tried = None if call is None else answers.pop()
    refusal = tried if isinstance(tried, ContractReverted) else None
    if isinstance(market, RpcError) and market.kind is RpcErrorKind.REVERTED:
        market = books = None
    market, books, paused, used, balance, _ = values([market, books, *answers, None if refusal else tried])
    return ChainFacts(
        block=head.number,
        timestamp=head.timestamp,
        market=None if market is None or market["status"] == StockMarketStatus.NONE else market,
        room=0 if books is None else _room(books[1 - bet.outcome]),
        entries_paused=paused,
        signer_has_code=bool(code),
        authorization_used=used,
        balance=balance,
        refusal=refusal,
    )


def _room(opposite: Mapping[str, int]) -> int:
    """Return the amount that an outcome may still accept, computed from the book of the opposite outcome."""
    return max(0, opposite["capacity"] - opposite["vested"])


class LandingUnknown(Exception):
    """The error that the nodes that answered cannot show whether a bet is on the chain. They do not have the bet's
    block yet, or that block is too old for them."""


@dataclass(frozen=True, slots=True)
class _Indexed:
    """The index's record of a bet up to the block `number`. The record is empty if the index cannot be read. tx: the
    transaction that placed the bet. unpaired: a transaction that used the bet's authorization and also has a payment to
    us, which did not come from that authorization."""

    number: int = 0
    hash: bytes | None = None
    tx: bytes | None = None
    unpaired: bytes | None = None


async def find_landing(
    engine: AsyncEngine,
    client: ChainClient,
    contracts: StockContracts,
    bet: StockBet,
    timeout_seconds: float,
    *,
    seen: int | None,
    spent: bool = False,
) -> bytes | None:
    """Return the transaction that placed a bet, or None if the bet is certainly not on the chain. The index is asked
    first, then the state of the bet's authorization at a named block. Raise LandingUnknown if the nodes cannot show it,
    and RpcError or TimeoutError if no node answers.

    seen: a block that was seen before, because the state at an older block proves nothing; None uses the node's newest
    block. spent: whether a node reported the authorization as used; the state at an older block does not disprove that.
    """
    index = await _read_index(engine, bet, timeout_seconds)
    if index.tx is not None:
        return index.tx
    async with asyncio.timeout(4 * timeout_seconds):
        if seen is None:
            seen = (await client.head(timeout_seconds=timeout_seconds)).number
        block = max(seen, index.number)
        if not spent:
            state = contracts.token.call("authorizationState", bet.signer, bet.nonce)
            if not values(await client.read_many([state], block, timeout_seconds=timeout_seconds))[0]:
                return None
        return await _find_use(client, contracts, bet, index, block, timeout_seconds)


async def _read_index(engine: AsyncEngine, bet: StockBet, timeout_seconds: float) -> _Indexed:
    """Return the index's record of the bet's authorization. The record is empty if the index cannot be read."""
    spent = token_authorization
    query = (
        select(chain_cursor.c.number, chain_cursor.c.hash, spent.c.state, spent.c.recipient, spent.c.tx)
        .select_from(chain_cursor)
        .outerjoin(
            spent,
            and_(
                spent.c.chain_id == chain_cursor.c.chain_id,
                spent.c.nonce == bet.nonce,
                spent.c.authorizer == bytes_of(bet.signer),
            ),
        )
        .where(chain_cursor.c.chain_id == bet.chain_id)
    )
    try:
        async with asyncio.timeout(timeout_seconds), engine.connect() as connection:
            row = (await connection.execute(query)).one_or_none()
    except DATABASE_ERRORS:
        return _Indexed()
    if row is None:
        return _Indexed()
    number, block_hash, state, recipient, tx = row
    is_ours = recipient == bytes_of(bet.settler)
    return _Indexed(max(0, number), block_hash, tx if is_ours else None, tx if state == "unpaired" else None)


async def _find_use(
    client: ChainClient, contracts: StockContracts, bet: StockBet, index: _Indexed, head: int, timeout_seconds: float
) -> bytes | None:
    """Return the transaction that used the bet's authorization to place the bet, up to the block `head`, or None.

    The index has every payment to us. If the authorization was used by the indexed block and the index has no payment,
    the bet was not placed, and no logs are searched. Otherwise anyone could cancel an authorization and make us search
    forever. If the indexed block is on a fork that the index has not left yet, it proves nothing.
    """
    if index.unpaired is not None:
        return await _check_transaction(client, contracts, bet, index.unpaired)
    since = 0
    if index.hash is not None:
        state = contracts.token.call("authorizationState", bet.signer, bet.nonce)
        (by_then,) = await client.read_many([state], hex_of(index.hash), timeout_seconds=timeout_seconds)
        if by_then is True:
            canonical = await client.block(index.number)
            if canonical is not None and canonical.hash == hex_of(index.hash):
                return None
        if by_then is False:
            since = index.number + 1
    return await _search_logs(client, contracts, bet, since, head)


async def _check_transaction(client: ChainClient, contracts: StockContracts, bet: StockBet, tx: bytes) -> bytes | None:
    """Return the transaction `tx` if it placed the bet, else None."""
    receipt = await client.receipt(hex_of(tx))
    if receipt is None:
        raise LandingUnknown  # this node does not have it yet
    return tx if find_position(receipt, contracts, bet) is not None else None


async def _search_logs(
    client: ChainClient, contracts: StockContracts, bet: StockBet, since: int, head: int
) -> bytes | None:
    """Search the logs from the block `since` for the use of the bet's authorization. Return the transaction of that use
    if it placed the bet, else None."""
    topics = (SPENT_TOPICS, _topic(bet.signer), hex_of(bet.nonce))
    lowest = max(since, head - _MAX_SEARCH_BLOCKS)
    while head >= lowest:
        since = max(lowest, head - _SEARCH_STEP_BLOCKS + 1)
        logs = await client.logs(since, head, [contracts.token.address], topics)
        for log in logs:
            tx = await _check_transaction(client, contracts, bet, data_bytes(log.transaction_hash))
            if tx is not None:
                return tx
        if logs:
            return None  # spent on something else, or cancelled
        head = since - 1
    raise LandingUnknown


def find_position(receipt: Receipt, contracts: StockContracts, bet: StockBet) -> int | None:
    """Return the id of the position that the bet opened in the receipt's transaction, or None if it opened none
    there."""
    for log in receipt.logs:
        topics, data = b"".join(map(data_bytes, log.topics)), data_bytes(log.data)
        if checksum(log.address) != contracts.settler.address or topics[:32] != ENTERED.topic:
            continue
        entered = ENTERED.read(topics, data)
        if (entered.owner, entered.market_id, entered.outcome, entered.offered) == (
            bytes_of(bet.signer),
            bet.market_id,
            bet.outcome,
            bet.amount,
        ):
            return int(entered.position_id)
    return None


def _topic(address: str) -> str:
    return "0x" + address[2:].lower().rjust(64, "0")
