"""Attempts of one wallet's bets made by several processes at once: what the wallet's lock and its balance allow.

Both surfaces store their attempts alike, so each test runs for both.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from aiohttp.test_utils import make_mocked_request
from eth_utils.crypto import keccak
from psycopg_pool import PoolTimeout

from api import database
from api.agent.errors import free_connection, problem, storage
from api.agent.trade import records
from api.agent.trade.trading import TradeSubmission
from api.limits import ConcurrencyLimiter
from api.payments.attempts import Attempt, Attempts, Funds, FundsReserved
from api.payments.pipeline import Payments, Submission
from api.problems import Problem
from api.stock import checks
from api.stock.bets import ATTEMPTS as STOCK_ATTEMPTS
from api.stock.relay import RelaySubmission
from core.agent.bet import Bet
from core.db.engine import Connection, ConnectionPool, make_pool
from core.outbox import IntentConflict
from tests.support.signed_bets import BASE, SETTLER, WALLET, add_trade, relayed
from tests.waiting import PATIENCE

_SIGNED = b"""
WITH lane AS (INSERT INTO outbox_lane (chain_id, address, groups) VALUES (1, %s, '{relay}') RETURNING id)
UPDATE outbox_intent SET state = 'signed', lane_id = lane.id, nonce = 1, tx_hash = %s
FROM lane WHERE outbox_intent.id = %s
"""
_MINED = b"""
UPDATE outbox_intent SET state = 'mined', outcome = 'succeeded', block_number = %s, block_hash = %s, mined_at = now()
WHERE id = %s
"""

_SPENT = b"""
INSERT INTO token_authorization
    (chain_id, authorizer, nonce, token, state, recipient, value, block_number, log_index, at, tx)
SELECT b.chain_id, b.wallet, b.nonce, b.wallet, n.state, CASE n.state WHEN 'paid' THEN b.wallet END,
    CASE n.state WHEN 'paid' THEN b.amount END, n.block, 1, 1, b.nonce
FROM (%b) AS b (chain_id, wallet, nonce, amount, intent_id), (VALUES (%%s, %%s::bigint)) n (state, block)
WHERE b.intent_id = %%s RETURNING tx
"""


def spent(asked: bytes) -> bytes:
    """Return the statement that records the outcome of an authorization (state, block, intent) for the bets of a
    SELECT: chain_id, wallet, nonce, amount, intent_id."""
    return _SPENT % asked


async def mined(pool: ConnectionPool, intent_id: int, block: int) -> None:
    async with pool.connection() as connection:
        await connection.execute(_SIGNED, (intent_id.to_bytes(20), bytes(32), intent_id))
        await connection.execute(_MINED, (block, bytes(32), intent_id))


AT_ONCE = 6
BLOCK = 7  # at which the wallet's balance was read


def trade(number: int, amount: int = 5_000_000) -> Bet:
    """Return a trade that duplicates no other."""
    return Bet(number.to_bytes(32), 0, amount, 0, WALLET.lower(), keccak(text=f"key {number}"))


async def add_stock_bet(connection: Connection, number: int, amount: int, after: int, funds: Funds) -> Attempt:
    bet = relayed(number, amount)
    return await STOCK_ATTEMPTS.add(connection, bet.key, bet.row, bet.signed, after=after, funds=funds)


async def add_agent_trade(connection: Connection, number: int, amount: int, after: int, funds: Funds) -> Attempt:
    bet, nonce = trade(number, amount), keccak(text=f"nonce {number}")
    return await add_trade(connection, bet, keccak(text=f"bet {number}"), nonce, after=after, funds=funds)


@dataclass(frozen=True)
class Surface:
    """A surface whose bets are numbered."""

    table: str
    attempts: Attempts
    add_to: Callable[[Connection, int, int, int, Funds], Awaitable[Attempt]]
    spent: bytes
    pool: ConnectionPool

    async def add(
        self, number: int, amount: int = 5_000_000, *, balance: int = 12_500_000, after: int = 0, block: int = BLOCK
    ) -> Attempt:
        """Store an attempt as the API does, but slow to commit: concurrent calls must wait, or see nothing of it."""
        async with self.pool.connection() as connection, connection.transaction():
            attempt = await self.add_to(connection, number, amount, after, Funds(balance, block))
            await asyncio.sleep(0.1)
        return attempt

    async def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        async with self.pool.connection() as connection:
            return await connection.fetch_all(query.format(table=self.table).encode(), values)


STOCK_SPENT = spent(b"SELECT chain_id, signer, nonce, amount, intent_id FROM relay_bet")
AGENT_SPENT = spent(b"SELECT 8453, wallet, nonce, amount, intent_id FROM agent_trade")
FAIL = "UPDATE outbox_intent SET state = 'failed', reason = 'x' WHERE id = %s RETURNING id"


@pytest.fixture
async def pool(fresh_database_url: str) -> AsyncIterator[ConnectionPool]:
    async with make_pool(fresh_database_url, size=AT_ONCE + 1, autocommit=True) as made:
        yield made


@pytest.fixture(params=["stock", "agent"])
def surface(request: pytest.FixtureRequest, pool: ConnectionPool) -> Surface:
    if request.param == "stock":
        return Surface("relay_bet", STOCK_ATTEMPTS, add_stock_bet, STOCK_SPENT, pool)
    return Surface("agent_trade", records.ATTEMPTS, add_agent_trade, AGENT_SPENT, pool)


async def test_funds_of_pending_bets_are_reserved(surface: Surface) -> None:
    """With money for two and a half of them: the others would revert, and each would cost us its gas."""
    results = await asyncio.gather(*(surface.add(number) for number in range(AT_ONCE)), return_exceptions=True)
    taken = [each for each in results if isinstance(each, Attempt)]
    assert len(taken) == 2, results
    assert sum(isinstance(each, FundsReserved) for each in results) == AT_ONCE - 2, results
    assert await surface.rows("SELECT count(*) FROM {table}") == [(2,)]
    assert await surface.rows("SELECT count(*) FROM outbox_intent") == [(2,)]
    # An ended attempt reserves nothing, and what the index shows as spent is no longer in the balance.
    first, second = (each.intent for each in taken)
    await surface.rows(FAIL, first.id)
    assert (await surface.add(AT_ONCE, 5_500_000)).is_new
    with pytest.raises(FundsReserved, match="10500000"):
        await surface.add(AT_ONCE + 1)
    await surface.rows(surface.spent.decode(), "paid", BLOCK, second.id)
    assert (await surface.add(AT_ONCE + 1)).is_new


@pytest.mark.parametrize("known_from", ["relayer", "index"])
async def test_a_bet_mined_above_the_block_of_the_balance_is_still_reserved(surface: Surface, known_from: str) -> None:
    """The balance is of one block; before the next bet is stored, a newer block is known to have spent it."""
    first = (await surface.add(1, balance=5_000_000)).intent
    if known_from == "relayer":
        await mined(surface.pool, first.id, BLOCK + 1)
    else:
        await surface.rows(surface.spent.decode(), "paid", BLOCK + 1, first.id)
    with pytest.raises(FundsReserved, match="5000000"):
        await surface.add(2, balance=5_000_000)
    assert (await surface.add(2, balance=5_000_000, block=BLOCK + 1)).is_new


async def test_a_cancelled_authorization_reserves_nothing(surface: Surface) -> None:
    """However new the block is: it never takes anything."""
    first = (await surface.add(1, balance=5_000_000)).intent
    await surface.rows(surface.spent.decode(), "canceled", BLOCK + 1, first.id)
    assert (await surface.add(2, balance=5_000_000)).is_new


async def test_the_same_bet_many_times_at_once_is_attempted_once(surface: Surface) -> None:
    """With money for one: all get the same intent, and the bet is not reserved against itself."""
    results = await asyncio.gather(*(surface.add(1, balance=5_000_000) for _ in range(AT_ONCE)))
    assert len({each.intent.id for each in results}) == 1
    assert sum(each.is_new for each in results) == 1
    assert await surface.rows("SELECT count(*) FROM outbox_intent") == [(1,)]
    await surface.rows(FAIL, results[0].intent.id)
    again = await surface.add(1, balance=5_000_000, after=1)
    assert (again.number, again.is_new) == (2, True)
    assert await surface.rows("SELECT attempt FROM {table}") == [(2,)]


async def test_if_the_row_of_a_bet_is_lost_its_intent_is_found_by_its_key(surface: Surface) -> None:
    first = await surface.add(1)
    assert await surface.rows("DELETE FROM {table} RETURNING intent_id")
    assert (await surface.add(1)).intent == first.intent
    assert await surface.rows("SELECT count(*) FROM outbox_intent") == [(1,)]


async def test_only_a_key_that_commits_to_the_bet_finds_the_intent_of_another_body(pool: ConnectionPool) -> None:
    """A stock bet may be signed again for another window; an idempotency key may be used for another trade."""
    first, bet = relayed(1), relayed(1).bet
    later = replace(bet, valid_before=bet.valid_before + 60)
    signed = replace(first.signed, call=later.call(SETTLER, bytes(65)), authorization=later.authorization)
    another = replace(first, bet=later, signed=signed)
    async with pool.connection() as connection, connection.transaction():
        stored = await STOCK_ATTEMPTS.add(
            connection, first.key, first.row, first.signed, after=0, funds=Funds(10**9, 1)
        )
        await connection.execute("DELETE FROM relay_bet")
        again = await STOCK_ATTEMPTS.add(
            connection, another.key, another.row, another.signed, after=0, funds=Funds(10**9, 1)
        )
        assert again.intent == stored.intent
    async with pool.connection() as connection:
        async with connection.transaction():
            await add_trade(connection, trade(1), keccak(text="a bet"), keccak(text="a nonce"))
            await connection.execute("DELETE FROM agent_trade")
        with pytest.raises(IntentConflict):
            async with connection.transaction():
                await add_trade(connection, trade(1, 6_000_000), keccak(text="another"), keccak(text="another nonce"))
        assert await connection.fetch_all("SELECT count(*) FROM agent_trade") == [(0,)]


@pytest.mark.parametrize("attempts", [0, 1])
async def test_a_bet_that_another_request_has_just_stored_is_not_refused_for_good(
    surface: Surface, attempts: int
) -> None:
    """The same body twice at the bell. The one that finds the market closed looked for attempts before the other stored
    one: the first, or another after one that failed."""
    if attempts:
        await surface.rows(FAIL, (await surface.add(1)).intent.id)

    async def closed(number: int, known: int, *before: Awaitable[Attempt]) -> Problem:
        async def check() -> NoReturn:
            await asyncio.gather(*before)
            raise _closed(surface)

        submission = _submission(surface, number, known)
        submission.check = check  # type: ignore[method-assign]
        with pytest.raises(Problem) as refused:
            await _payments(surface).run(make_mocked_request("POST", "/"), submission)
        return refused.value

    assert (await closed(1, attempts, surface.add(1, after=attempts))).extra.get("final") is False
    assert "final" not in (await closed(2, 0)).extra, "no attempt was stored for this one"


def _closed(surface: Surface) -> Problem:
    if surface.table == "relay_bet":
        return checks.market_closed("It is past its bell.")
    return problem("market_closed", "It is past its end.")


def _submission(surface: Surface, number: int, known: int) -> Submission[Any]:
    """Return a submission that found `known` attempts."""
    settings = SimpleNamespace(rpc_request_path_timeout_seconds=1.0)
    if surface.table == "relay_bet":
        relay: Any = SimpleNamespace(settings=settings, sources=SimpleNamespace(contracts=None, client=None))
        stock = RelaySubmission(relay, relayed(number), None, 0.0)
        stock._attempts = known
        return stock

    async def landed(_trade: Any) -> None:
        return None

    service: Any = SimpleNamespace(contracts=SimpleNamespace(chain_id=BASE), outcomes=SimpleNamespace(landed=landed))
    request: Any = SimpleNamespace(idem_key=f"key {number}", wallet=WALLET.lower(), simulate=False)
    agent = TradeSubmission(service, make_mocked_request("POST", "/"), request, None)  # type: ignore[arg-type]
    agent.key = records.bet_key(BASE, WALLET.lower(), trade(number).idem_hash)
    agent._market = SimpleNamespace()  # type: ignore[assignment]
    return agent


def _payments(surface: Surface) -> Payments:
    settings = SimpleNamespace(trust_proxy=False, chain=lambda _: SimpleNamespace(finality_blocks=1))
    context: Any = SimpleNamespace(
        settings=settings, pool=surface.pool, watch=None, payments=ConcurrencyLimiter(AT_ONCE, AT_ONCE)
    )
    return Payments(context, "base", surface.attempts, "Look there.")


async def test_a_bet_that_finds_no_free_connection_is_retriable(surface: Surface) -> None:
    """Nothing is known to be wrong with it, and nothing of it was written."""

    async def find() -> Attempt | None:
        if surface.table == "relay_bet":
            relay: Any = SimpleNamespace(
                settings=SimpleNamespace(rpc_request_path_timeout_seconds=1.0, payments_in_hand=1),
                sources=SimpleNamespace(contracts=None, client=None),
                pool=surface.pool,
            )
            bet = RelaySubmission(relay, relayed(1), None, 0.0)
            async with bet._database(checks.relayer_unavailable) as connection:
                return await surface.attempts.find(connection, bet.key)
        async with storage("The trade records"), free_connection(surface.pool) as connection:
            return await surface.attempts.find(connection, records.bet_key(BASE, WALLET.lower(), bytes(32)))

    async with AsyncExitStack() as held:
        for _ in range(AT_ONCE + 1):
            await held.enter_async_context(surface.pool.connection())
        with pytest.raises(Problem) as refused:
            await find()
    assert refused.value.code == ("busy" if surface.table == "relay_bet" else "rate_limited")
    assert int(refused.value.headers["Retry-After"]) > 0
    assert await find() is None


async def test_a_pool_whose_new_connections_hang_is_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "FREE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://vpm@127.0.0.1:{silent.getsockname()[1]}/vpm"
        async with make_pool(url, connect_timeout_seconds=PATIENCE) as pool:
            with pytest.raises(PoolTimeout):
                async with free_connection(pool):
                    pass


# ---------------------------------------------------------------- of an agent's trade alone


async def all_at_once(pool: ConnectionPool, bets: list[Bet], nonces: list[bytes]) -> list[Any]:
    async def add(bet: Bet, nonce: bytes) -> Attempt:
        async with pool.connection() as connection, connection.transaction():
            attempt = await add_trade(connection, bet, keccak(text=f"bet {bet.idem_hash.hex()}"), nonce)
            await asyncio.sleep(0.1)
        return attempt

    return await asyncio.gather(*map(add, bets, nonces), return_exceptions=True)


def refused_as(outcome: object, code: str) -> bool:
    return isinstance(outcome, Problem) and outcome.code == code


async def test_one_authorization_pays_for_one_of_many_trades(pool: ConnectionPool) -> None:
    """No trade is another's duplicate: the authorization alone is what they share."""
    outcomes = await all_at_once(pool, [trade(number) for number in range(AT_ONCE)], [keccak(text="one")] * AT_ONCE)
    assert sum(isinstance(each, Attempt) for each in outcomes) == 1, outcomes
    assert sum(refused_as(each, "payment_invalid") for each in outcomes) == AT_ONCE - 1, outcomes
    async with pool.connection() as connection:
        for table in (b"agent_authorization", b"agent_trade", b"outbox_intent"):
            assert await connection.fetch_all(b"SELECT count(*) FROM " + table) == [(1,)]


async def test_of_the_same_trade_under_many_keys_one_is_in_flight(pool: ConnectionPool) -> None:
    """Each with its own authorization."""
    bets = [replace(trade(0), idem_hash=keccak(text=f"key {number}")) for number in range(AT_ONCE)]
    outcomes = await all_at_once(pool, bets, [keccak(text=f"nonce {number}") for number in range(AT_ONCE)])
    assert sum(isinstance(each, Attempt) for each in outcomes) == 1, outcomes
    assert sum(refused_as(each, "rate_limited") for each in outcomes) == AT_ONCE - 1, outcomes
    async with pool.connection() as connection:
        assert await connection.fetch_all("SELECT count(*) FROM outbox_intent") == [(1,)]
