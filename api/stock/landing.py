"""The chain's state for a bet: the facts it is checked against, the transaction it landed in, and its position.

The nodes behind one address may be some blocks apart, and each request may reach a different one. So a check that a bet
is not on the chain names its block, which is no older than any seen so far, and never asks for "latest".
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
    """The chain's state for a bet, all from one block. `market` is None for an id that was never listed. `room`: how
    much its side still takes, shared by all bets of that block. `refusal`: the revert of the call that places it, if it
    was simulated."""

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
    """Read the facts about a bet, and simulate `call`, which places it, on the same block. Raises RpcError if no node
    answers."""
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
    """Return how much an outcome may still accept, from the opposite outcome's book."""
    return max(0, opposite["capacity"] - opposite["vested"])


class LandingUnknown(Exception):
    """The nodes that answered cannot show whether a bet landed: they do not have its block yet, or it was too long
    ago."""


@dataclass(frozen=True, slots=True)
class _Indexed:
    """The index's record of a bet, up to the block `number`; empty if the index cannot be read. tx: the transaction
    that placed it. unpaired: a transaction that used its authorization and has a payment to us that did not come from
    it."""

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
    """Return the transaction in which a bet landed, by the index, else by the authorization's state in a named block;
    None if it certainly has not landed. Raises LandingUnknown, or RpcError or TimeoutError if no node answers.

    seen: a block seen before, since older views prove nothing; None uses the node's newest. spent: a node reported the
    authorization as used, and no older view can revoke that.
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
    """Return the index's record of the bet's authorization, or an empty one when it cannot be read."""
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
    """Return the transaction in which the bet's authorization was spent on it by the block `head`, or None.

    The index has every payment to us. If the authorization was spent by the indexed block and the index has no payment,
    there is none, and no logs are searched: otherwise anyone could cancel an authorization and make us search forever.
    A block on a fork that the index has not left yet proves nothing.
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
    """Return the transaction if it placed the bet, else None."""
    receipt = await client.receipt(hex_of(tx))
    if receipt is None:
        raise LandingUnknown  # this node does not have it yet
    return tx if find_position(receipt, contracts, bet) is not None else None


async def _search_logs(
    client: ChainClient, contracts: StockContracts, bet: StockBet, since: int, head: int
) -> bytes | None:
    """Search the logs from block `since` on for the use of the bet's authorization; return its transaction if it placed
    the bet."""
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
    """Return the id of the position that the bet opened in this transaction, or None."""
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
