"""What the chain says about a bet: the facts it is checked against, its landing by the authorization's nonce, and the
position it made."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from api.unreadable import UNREADABLE
from api.vpm.authorization import Bet
from api.vpm.chain import StockContracts
from core.chain import Call, ChainClient, Receipt, RpcError, RpcErrorKind, checksum
from core.chain.wire import data_bytes, quantity
from core.db.schema.index_shared import token_authorization
from core.events import topic_of

_SPENT_BY = ("AuthorizationUsed", "AuthorizationCanceled")
SPENT_TOPICS = tuple(
    "0x" + topic_of(f"{each}(address indexed authorizer, bytes32 indexed nonce)").hex() for each in _SPENT_BY
)

# A bet is valid for an hour at most, so its landing lies no further back. Ranges are kept to what nodes answer.
_LONGEST_SEARCH_BLOCKS = 40_000
_SEARCH_STEP_BLOCKS = 5_000


@dataclass(frozen=True, slots=True)
class ChainFacts:
    """All read in one batch at the newest block. `market` is None for an id that was never listed."""

    block: int
    timestamp: int
    market: dict[str, Any] | None
    entries_paused: bool
    signer_has_code: bool
    authorization_used: bool
    balance: int


async def read_facts(client: ChainClient, contracts: StockContracts, bet: Bet, timeout_seconds: float) -> ChainFacts:
    """RpcError when the chain cannot be asked."""
    calls = {
        "market": contracts.settler.call("market", bet.market_id),
        "paused": contracts.settler.call("entriesPaused"),
        "used": contracts.token.call("authorizationState", bet.signer, bet.nonce),
        "balance": contracts.token.call("balanceOf", bet.signer),
    }
    requests: list[tuple[str, list[Any]]] = [
        ("eth_getBlockByNumber", ["latest", False]),
        ("eth_getCode", [bet.signer, "latest"]),
        *(("eth_call", [call.parameters(), "latest"]) for call in calls.values()),
    ]
    head, code, *answers = cast("list[Any]", await client.rpc.batch(requests, object, timeout_seconds=timeout_seconds))
    values: dict[str, Any] = {}
    for (name, call), answer in zip(calls.items(), answers, strict=True):
        if name == "market" and isinstance(answer, RpcError) and answer.kind is RpcErrorKind.REVERTED:
            values[name] = None
        else:
            values[name] = _decoded(call, answer)
    block = _answered(head)
    market = values["market"]
    return ChainFacts(
        block=quantity(block["number"]),
        timestamp=quantity(block["timestamp"]),
        market=None if market is None or market["status"] == 0 else market,
        entries_paused=values["paused"],
        signer_has_code=len(_answered(code)) > 2,
        authorization_used=values["used"],
        balance=values["balance"],
    )


@dataclass(frozen=True, slots=True)
class Landing:
    """How an authorization was spent: in `tx` on this very bet, `elsewhere` on something else or by cancelling it.
    Neither: the nodes asked do not have the block yet, or it was long ago."""

    tx: bytes | None = None
    elsewhere: bool = False


async def is_spent(client: ChainClient, contracts: StockContracts, bet: Bet, timeout_seconds: float) -> bool:
    """True as soon as one node says that the bet's authorization is used. RpcError when no node can say."""
    call = contracts.token.call("authorizationState", bet.signer, bet.nonce)
    nodes = [client.pinned(position) for position in range(len(client.rpc.labels))]
    answers = await asyncio.gather(
        *(node.read(call, timeout_seconds=timeout_seconds) for node in nodes), return_exceptions=True
    )
    said = [each for each in answers if not isinstance(each, BaseException)]
    if not said:
        for each in answers:
            assert isinstance(each, BaseException)
            raise each
    return any(said)


async def find_landing(
    engine: AsyncEngine, client: ChainClient, contracts: StockContracts, bet: Bet, head: int, timeout_seconds: float
) -> Landing:
    """What spent the bet's authorization, found in the index, else by logs of the chain."""
    query = select(token_authorization.c.tx).where(
        token_authorization.c.nonce == bet.nonce,
        token_authorization.c.authorizer == bytes.fromhex(bet.signer[2:]),
        token_authorization.c.recipient == bytes.fromhex(bet.settler[2:]),
    )
    try:
        async with asyncio.timeout(timeout_seconds), engine.connect() as connection:
            found = await connection.scalar(query)
        if found is not None:
            return Landing(bytes(found))
    except UNREADABLE:
        pass  # then the chain itself must tell
    topics = (SPENT_TOPICS, _topic(bet.signer), "0x" + bet.nonce.hex())
    lowest = max(0, head - _LONGEST_SEARCH_BLOCKS)
    while head >= lowest:
        since = max(lowest, head - _SEARCH_STEP_BLOCKS + 1)
        logs = await client.logs(since, head, [contracts.token.address], topics)
        for log in logs:
            receipt = await client.receipt(log.transaction_hash)
            if receipt is not None and position_in(receipt, contracts, bet) is not None:
                return Landing(data_bytes(log.transaction_hash))
            if receipt is None:
                return Landing()  # its receipt is late
        if logs:
            return Landing(elsewhere=True)
        head = since - 1
    return Landing()


def position_in(receipt: Receipt, contracts: StockContracts, bet: Bet) -> int | None:
    """The id of the position the bet made in this transaction."""
    event = contracts.settler.abi.event("Entered")
    for log in receipt.logs:
        if checksum(log.address) != contracts.settler.address or log.topics[0] != "0x" + event.topic.hex():
            continue
        entered = event.decode([data_bytes(topic) for topic in log.topics], data_bytes(log.data))
        if (
            checksum(entered["owner"]) == bet.signer
            and entered["marketId"] == bet.market_id
            and entered["outcome"] == bet.outcome
            and entered["offered"] == bet.amount
        ):
            return int(entered["positionId"])
    return None


def _decoded(call: Call, answer: object) -> Any:
    return call.function.decode(data_bytes(_answered(answer)))


def _answered(answer: Any) -> Any:
    if isinstance(answer, RpcError):
        raise answer
    return answer


def _topic(address: str) -> str:
    return "0x" + address[2:].lower().rjust(64, "0")
