"""Bets of one wallet asked for by several processes at once: what the wallet's lock stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from api.payments.attempts import Attempts
from api.payments.funds import Funds, FundsReserved
from api.problems import Problem
from api.stock import bets, checks
from api.stock.bets import KnownBet, RelayedBet
from api.stock.outcomes import BetOutcomes
from core.db.engine import ConnectionPool, make_engine, make_pool
from tests.support.mined import mined, spent
from tests.support.relayed import SETTLER, relayed

AT_ONCE = 6
BLOCK = 7  # at which the wallet's balance was read


@pytest.fixture
async def pool(fresh_database_url: str) -> AsyncIterator[ConnectionPool]:
    async with make_pool(fresh_database_url, size=AT_ONCE + 1, autocommit=True) as made:
        yield made


async def ask(
    pool: ConnectionPool, bet: RelayedBet, balance: int = 12_500_000, attempt: int = 1, block: int = BLOCK
) -> KnownBet:
    """Ask for a bet as the API does, but slow to commit: concurrent calls must wait, or see nothing of it."""
    async with pool.connection() as connection, connection.transaction():
        known = await bets.ask(connection, bet, attempt, Funds(balance, block))
        await asyncio.sleep(0.1)
    return known


SPENT = spent(b"SELECT chain_id, signer, nonce, amount, intent_id FROM relay_bet")


async def rows(pool: ConnectionPool, query: bytes, *values: object) -> list[tuple[object, ...]]:
    async with pool.connection() as connection:
        return await (await connection.execute(query, values)).fetchall()


async def test_what_is_on_its_way_is_not_promised_twice(pool: ConnectionPool) -> None:
    """With money for two and a half of them: the others would revert, and each would cost us its gas."""
    asked = [ask(pool, relayed(salt)) for salt in range(AT_ONCE)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    taken = [each for each in results if isinstance(each, KnownBet)]
    assert len(taken) == 2, results
    assert sum(isinstance(each, FundsReserved) for each in results) == AT_ONCE - 2, results
    for table in (b"relay_bet", b"outbox_intent"):
        assert await rows(pool, b"SELECT count(*) FROM " + table) == [(2,)]
    # What has ended holds nothing up, and what the index shows taken is no longer in the balance.
    first, second = (each.intent for each in taken)
    await rows(pool, b"UPDATE outbox_intent SET state = 'failed', reason = 'x' WHERE id = %s RETURNING id", first.id)
    assert isinstance(await ask(pool, relayed(AT_ONCE, 5_500_000)), KnownBet)
    with pytest.raises(FundsReserved, match="10500000"):
        await ask(pool, relayed(AT_ONCE + 1))
    await rows(pool, SPENT, "paid", BLOCK, second.id)
    assert isinstance(await ask(pool, relayed(AT_ONCE + 1)), KnownBet)


@pytest.mark.parametrize("known_from", ["relayer", "index"])
async def test_what_is_mined_above_the_block_of_the_balance_is_still_in_it(
    pool: ConnectionPool, known_from: str
) -> None:
    """The balance is of one block; before the next bet is asked for, a newer block is known to have spent it."""
    first = (await ask(pool, relayed(1), balance=5_000_000)).intent
    if known_from == "relayer":
        await mined(pool, first.id, BLOCK + 1)
    else:
        await rows(pool, SPENT, "paid", BLOCK + 1, first.id)
    with pytest.raises(FundsReserved, match="5000000"):
        await ask(pool, relayed(2), balance=5_000_000)
    assert isinstance(await ask(pool, relayed(2), balance=5_000_000, block=BLOCK + 1), KnownBet)


async def test_what_its_wallet_cancelled_is_promised_no_more(pool: ConnectionPool) -> None:
    """However new the block is: it never takes anything."""
    first = (await ask(pool, relayed(1), balance=5_000_000)).intent
    await rows(pool, SPENT, "canceled", BLOCK + 1, first.id)
    assert isinstance(await ask(pool, relayed(2), balance=5_000_000), KnownBet)


async def test_one_authorization_is_asked_for_once_and_promises_nothing_to_itself(pool: ConnectionPool) -> None:
    """The same body many times, with money for one: all get the same transaction."""
    results = await asyncio.gather(*(ask(pool, relayed(1), balance=5_000_000) for _ in range(AT_ONCE)))
    assert len({each.intent.id for each in results}) == 1
    assert await rows(pool, b"SELECT count(*) FROM outbox_intent") == [(1,)]
    await rows(pool, b"UPDATE outbox_intent SET state = 'failed', reason = 'x' RETURNING id")
    again = await ask(pool, relayed(1), balance=5_000_000, attempt=2)
    assert again.attempt == 2
    assert await rows(pool, b"SELECT attempt FROM relay_bet") == [(2,)]


async def test_where_the_note_of_a_bet_is_lost_its_transaction_is_found_by_its_key(pool: ConnectionPool) -> None:
    """Notes are made again. Its bettor may have signed the same bet for another time by then."""
    first, bet = await ask(pool, relayed(1)), relayed(1)
    later = replace(bet.bet, valid_before=bet.bet.valid_before + 60)
    another = replace(bet, bet=later, call=later.call(SETTLER, bytes(65)))
    for each in (bet, another):
        assert await rows(pool, b"DELETE FROM relay_bet RETURNING intent_id")
        again = await ask(pool, each)
        assert again.intent == first.intent
    assert await rows(pool, b"SELECT count(*) FROM outbox_intent") == [(1,)]


@pytest.fixture
async def outcomes(fresh_database_url: str, pool: ConnectionPool) -> AsyncIterator[BetOutcomes]:
    settings = SimpleNamespace(rpc_request_path_timeout_seconds=1.0, chain=lambda _: SimpleNamespace(finality_blocks=1))
    engine = make_engine(fresh_database_url)
    context: Any = SimpleNamespace(settings=settings, primary=engine, pool=pool, watch=None, payments=None)
    sources: Any = SimpleNamespace(contracts=None, client=None)
    yield BetOutcomes(context, sources, Attempts(context, "stock", "GET /api/relay/receipt says."))
    await engine.dispose()


@pytest.mark.parametrize("attempts", [0, 1])
async def test_what_another_request_has_just_asked_for_is_not_refused_for_good(
    pool: ConnectionPool, outcomes: BetOutcomes, attempts: int
) -> None:
    """The same body twice at the bell. The one that finds the market closed read what was asked for before the other
    asked: for the first time, or again after an attempt that failed."""
    if attempts:
        await ask(pool, relayed(1))
        await rows(pool, b"UPDATE outbox_intent SET state = 'failed', reason = 'x' RETURNING id")

    async def closed(bet: RelayedBet, known: int, *before: Coroutine[Any, Any, KnownBet]) -> None:
        async with outcomes.judging(bet, was_attempted=known > 0):
            await asyncio.gather(*before)
            raise checks.market_closed("It is past its bell.")

    with pytest.raises(Problem) as refused:
        await closed(relayed(1), attempts, ask(pool, relayed(1), attempt=attempts + 1))
    assert refused.value.extra.get("final") is False
    with pytest.raises(Problem) as refused:
        await closed(relayed(2), 0)
    assert "final" not in refused.value.extra, "no transaction was requested for this one"
