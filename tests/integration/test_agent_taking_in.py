"""Payments of one wallet taken in by several processes at once: what each row lock stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from eth_utils.crypto import keccak

from api.agent.storage import free_connection, storage
from api.agent.trade import store
from api.payments.funds import Funds, FundsReserved
from api.problems import Problem
from core.agent.bet import Bet
from core.db.engine import ConnectionPool, make_pool
from core.outbox import RELAY, Intent, IntentRequest
from tests.support.mined import mined, spent

AT_ONCE = 6
BLOCK = 7  # at which the wallet's balance was read
WALLET = "0x" + "31" * 20
BET = Bet(bytes(32), 0, 5_000_000, 0, WALLET, keccak(text="a key"))


@pytest.fixture
async def pool(fresh_database_url: str) -> AsyncIterator[ConnectionPool]:
    async with make_pool(fresh_database_url, size=AT_ONCE + 1, autocommit=True) as made:
        yield made


async def take_in(
    pool: ConnectionPool,
    number: int,
    bet: Bet,
    nonce: bytes,
    balance: int = 10**12,
    block: int = BLOCK,
) -> Intent:
    """Take a bet in as the API does, but slow to commit: concurrent calls must wait, or see nothing of it."""
    wanted = IntentRequest(f"test:{number}", 8453, RELAY, "settle", "0x" + "11" * 20)
    brought = store.SignedBet(bet, keccak(text=f"bet {bet.idem_hash.hex()}"), nonce, b"")
    async with pool.connection() as connection, connection.transaction():
        asked = await store.take_in(
            connection,
            brought,
            wanted,
            after_attempt=0,
            funds=Funds(balance, block),
            quote_id=None,
            callback_url=None,
        )
        await asyncio.sleep(0.2)
    return asked


async def all_at_once(pool: ConnectionPool, bets: list[Bet], nonces: list[bytes]) -> list[Any]:
    calls = [take_in(pool, number, bet, nonce) for number, (bet, nonce) in enumerate(zip(bets, nonces, strict=True))]
    return await asyncio.gather(*calls, return_exceptions=True)


def refused_as(outcome: object, code: str) -> bool:
    return isinstance(outcome, Problem) and outcome.code == code


async def counted(pool: ConnectionPool, table: str) -> int:
    async with pool.connection() as connection:
        row = await (await connection.execute(f"SELECT count(*) FROM {table}".encode())).fetchone()
    assert row is not None
    return int(row[0])


def other_keys() -> list[Bet]:
    return [replace(BET, idem_hash=keccak(text=f"key {number}")) for number in range(AT_ONCE)]


def another_bet() -> Bet:
    """Return a bet of a little less, so that it duplicates no other."""
    return replace(BET, idem_hash=keccak(text="another key"), amount=BET.amount - 1)


async def test_one_authorization_pays_for_one_of_many_trades(pool: ConnectionPool) -> None:
    """Different amounts, so that none is another's twin: the authorization alone is what they share."""
    bets = [replace(bet, amount=bet.amount + number) for number, bet in enumerate(other_keys())]
    outcomes = await all_at_once(pool, bets, [keccak(text="one nonce")] * AT_ONCE)
    assert sum(isinstance(each, Intent) for each in outcomes) == 1, outcomes
    assert sum(refused_as(each, "payment_invalid") for each in outcomes) == AT_ONCE - 1, outcomes
    for table in ("agent_authorization", "agent_trade", "outbox_intent"):
        assert await counted(pool, table) == 1, table


async def test_of_many_twins_one_is_on_its_way(pool: ConnectionPool) -> None:
    """The same bet under many keys, each with its own authorization."""
    outcomes = await all_at_once(pool, other_keys(), [keccak(text=f"nonce {number}") for number in range(AT_ONCE)])
    assert sum(isinstance(each, Intent) for each in outcomes) == 1, outcomes
    assert sum(refused_as(each, "rate_limited") for each in outcomes) == AT_ONCE - 1, outcomes
    assert await counted(pool, "outbox_intent") == 1


async def test_one_key_is_attempted_once(pool: ConnectionPool) -> None:
    """The same call many times: one is made, the others know that another was first."""
    outcomes = await all_at_once(pool, [BET] * AT_ONCE, [keccak(text="one nonce")] * AT_ONCE)
    assert sum(isinstance(each, Intent) for each in outcomes) == 1, outcomes
    assert sum(isinstance(each, store.AttemptTaken) for each in outcomes) == AT_ONCE - 1, outcomes
    assert await counted(pool, "outbox_intent") == 1


async def test_what_is_on_its_way_is_not_promised_twice(pool: ConnectionPool) -> None:
    """With money for two and a half of them: the others would revert, and each would cost us its gas."""
    bets = [replace(bet, amount=bet.amount + number) for number, bet in enumerate(other_keys())]
    calls = [
        take_in(pool, number, bet, keccak(text=f"nonce {number}"), balance=12_500_000)
        for number, bet in enumerate(bets)
    ]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(each, Intent) for each in outcomes) == 2, outcomes
    assert sum(isinstance(each, FundsReserved) for each in outcomes) == AT_ONCE - 2, outcomes
    assert await counted(pool, "outbox_intent") == 2
    ended = b"UPDATE outbox_intent SET state = 'failed', reason = 'x' WHERE id = (SELECT min(id) FROM outbox_intent)"
    async with pool.connection() as connection:
        await connection.execute(ended)
    left = replace(BET, idem_hash=keccak(text="one more"), amount=5_500_000)
    await take_in(pool, AT_ONCE, left, keccak(text="one more nonce"), balance=12_500_000)


SPENT = spent(b"SELECT 8453, wallet, nonce, amount, intent_id FROM agent_trade")


@pytest.mark.parametrize("known_from", ["relayer", "index"])
async def test_what_is_mined_above_the_block_of_the_balance_is_still_in_it(
    pool: ConnectionPool, known_from: str
) -> None:
    """The balance is of one block; before the next trade is taken in, a newer block is known to have spent it."""
    first, second = BET, another_bet()
    asked = await take_in(pool, 1, first, keccak(text="one nonce"), balance=first.amount)
    if known_from == "relayer":
        await mined(pool, asked.id, BLOCK + 1)
    else:
        async with pool.connection() as connection:
            await connection.execute(SPENT, ("paid", BLOCK + 1, asked.id))
    with pytest.raises(FundsReserved, match=str(first.amount)):
        await take_in(pool, 2, second, keccak(text="another nonce"), balance=first.amount)
    await take_in(pool, 2, second, keccak(text="another nonce"), balance=first.amount, block=BLOCK + 1)


async def test_what_its_wallet_cancelled_is_promised_no_more(pool: ConnectionPool) -> None:
    """However new the block is: it never takes anything."""
    asked = await take_in(pool, 1, BET, keccak(text="one nonce"), balance=BET.amount)
    async with pool.connection() as connection:
        await connection.execute(SPENT, ("canceled", BLOCK + 1, asked.id))
    await take_in(pool, 2, another_bet(), keccak(text="another nonce"), balance=BET.amount)


async def test_a_trade_that_finds_no_free_connection_is_asked_for_again(pool: ConnectionPool) -> None:
    """Nothing is known to be wrong with it, and nothing of it was written."""
    async with AsyncExitStack() as held:
        for _ in range(AT_ONCE + 1):
            await held.enter_async_context(pool.connection())
        with pytest.raises(Problem) as refused:
            async with storage("The trade records"), free_connection(pool) as connection:
                await store.find_trade(connection, bytes(20), bytes(32))
    assert (refused.value.status, refused.value.code) == (429, "rate_limited")
    assert int(refused.value.headers["Retry-After"]) > 0
    async with storage("The trade records"), free_connection(pool) as connection:
        assert await store.find_trade(connection, bytes(20), bytes(32)) is None
