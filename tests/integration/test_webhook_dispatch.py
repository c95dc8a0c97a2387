"""The webhook dispatcher: order, sharing work, giving up, disabling; and the event log it sends from."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import psycopg
import pytest
from eth_utils.crypto import keccak

from api.agent.facts import Links
from api.agent.notices import dispatcher as webhook_dispatcher
from api.agent.notices import endpoints as webhook_store
from api.agent.notices import sending as webhook_sending
from api.agent.notices.dispatcher import Dispatcher
from api.agent.notices.sending import DeliverySigner, TargetResolver, WebhookSender
from api.problems import Problem
from core.agent.bet import Bet
from core.agent.notices import log as event_log
from core.agent.notices.log import Draft, EventType, Notice, notices_from, source_of
from core.db.engine import ConnectionPool, make_pool
from tests.support import hostile_endpoint as hostile
from tests.support.signed_bets import add_trade
from tests.support.webhook_receiver import Receiver, receiver
from tests.waiting import PATIENCE, running, until

LINKS = Links("http://127.0.0.1:1", None, "0x" + "00" * 20)


def _sender() -> WebhookSender:
    return WebhookSender(DeliverySigner(None), TargetResolver(allow_private=True))


@pytest.fixture
async def pool(fresh_database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ConnectionPool]:
    monkeypatch.setattr(webhook_dispatcher, "POLL_SECONDS", 0.1)  # retries come when they are due
    async with make_pool(fresh_database_url, size=6, autocommit=True) as made:
        yield made


@contextlib.asynccontextmanager
async def dispatching(url: str, *, processes: int = 1, **how: Any) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(processes):
            pool = await stack.enter_async_context(make_pool(url, size=4, autocommit=True))
            await stack.enter_async_context(running(Dispatcher(url, pool, _sender(), LINKS, **how).run()))
        yield


async def _append(pool: ConnectionPool, wallet: bytes, *names: str) -> None:
    drafts = [
        Draft(wallet, EventType.TEST, source_of(EventType.TEST, wallet, name), orjson.dumps({"name": name}).decode())
        for name in names
    ]
    async with pool.connection() as connection, connection.transaction():
        await event_log.append(connection, drafts)


async def _hook(pool: ConnectionPool, wallet: bytes, url: str, *, status: str = "active") -> str:
    async with pool.connection() as connection, connection.transaction():
        made = await webhook_store.register(connection, wallet, url)
        await connection.execute("UPDATE agent_webhook SET status = %s WHERE id = %s", (status, made.id))
    return made.id


async def _log(pool: ConnectionPool, wallet: bytes) -> list[Notice]:
    async with pool.connection() as connection:
        return await notices_from(connection, wallet, 0, 1_000)


async def _row(pool: ConnectionPool, webhook_id: str) -> webhook_store.WebhookEndpoint:
    async with pool.connection() as connection:
        found = await webhook_store.find(connection, webhook_id)
    assert found is not None
    return found


async def _let_go(pool: ConnectionPool, webhook_id: str) -> None:
    async def is_let_go() -> bool:
        return (await _row(pool, webhook_id)).lease is None

    await until(is_let_go, "what was sent to be written down")


async def _becomes(pool: ConnectionPool, webhook_id: str, status: str) -> webhook_store.WebhookEndpoint:
    async def read() -> webhook_store.WebhookEndpoint | None:
        found = await _row(pool, webhook_id)
        return found if found.status == status else None

    return await until(read, f"the webhook to be {status}")


def _names(there: Receiver) -> list[str]:
    return [each["payload"].get("name", each["type"]) for each in there.events()]


async def test_several_processes_share_the_work_and_keep_each_wallets_order(
    pool: ConnectionPool, fresh_database_url: str
) -> None:
    names = [f"event {n}" for n in range(12)]
    wallets = [bytes([n + 1]) * 20 for n in range(12)]
    async with contextlib.AsyncExitStack() as stack:
        there = [await stack.enter_async_context(receiver()) for _ in wallets]
        for wallet, each in zip(wallets, there, strict=True):
            await _hook(pool, wallet, each.url)
            await _append(pool, wallet, *names[:6])
        async with dispatching(fresh_database_url, processes=3):
            for wallet in wallets:
                await _append(pool, wallet, *names[6:])
            for each in there:
                await each.until(lambda each=each: len(each.events()) >= len(names))
        for each in there:
            assert _names(each) == names


async def test_an_undeliverable_event_is_reported_on_the_other_channels(
    pool: ConnectionPool, fresh_database_url: str
) -> None:
    assert len(webhook_dispatcher.RETRIES) >= 8
    assert sum(webhook_dispatcher.RETRIES) >= 24 * 3600
    wallet = b"\x21" * 20
    retries = (0.05,) * 8
    async with receiver() as broken, receiver() as well:
        broken.always = 500
        hook = await _hook(pool, wallet, broken.url)
        ref = (await _row(pool, hook)).ref
        await _hook(pool, wallet, well.url)
        await _append(pool, wallet, "first", "second")
        async with dispatching(fresh_database_url, retries=retries):
            await broken.until(lambda: len(broken.events()) >= 2 * 9)
            await well.until(lambda: len(well.events()) == 4)
        assert _names(broken)[:18] == ["first"] * 9 + ["second"] * 9
        assert _names(well) == ["first", "second", "webhook.delivery_failed", "webhook.delivery_failed"]
        assert "webhook.delivery_failed" not in _names(broken)
    notice = (await _log(pool, wallet))[2]
    payload = orjson.loads(notice.payload)
    assert payload == {
        "webhook": ref,
        "eventId": (await _log(pool, wallet))[0].id,
        "seq": 0,
        "attempts": 9,
        "error": "The endpoint returned status 500.",
        "disabled": False,
    }
    assert hook not in notice.payload


async def test_a_webhook_that_only_fails_is_disabled_and_comes_back_with_the_handshake(
    pool: ConnectionPool, fresh_database_url: str
) -> None:
    assert webhook_store.DISABLE_AFTER_SECONDS == 3 * 86_400
    wallet = b"\x23" * 20
    async with receiver() as there:
        there.always = 500
        hook = await _hook(pool, wallet, there.url)
        await _append(pool, wallet, "first", "second")
        async with dispatching(fresh_database_url, retries=(0.1,) * 8, disable_after_seconds=0.5):
            await _becomes(pool, hook, "disabled")
            last = (await _log(pool, wallet))[-1]
            assert last.type is EventType.DELIVERY_FAILED
            assert orjson.loads(last.payload)["disabled"] is True
            sent = len(there.deliveries)
            await _append(pool, wallet, "third")
            await asyncio.sleep(1.5)
            assert len(there.deliveries) == sent
            # A test begins with the handshake, and goes on with the test.
            there.always = None
            await _append(pool, wallet, "fourth")
            async with pool.connection() as connection, connection.transaction():
                found = await webhook_store.find(connection, hook, lock=True)
                assert found is not None
                await webhook_store.retry_now(connection, found, (await _log(pool, wallet))[-1].seq)
            await there.until(lambda: _names(there)[-1] == "fourth")
        assert (await _row(pool, hook)).status == "active"
        assert there.deliveries[sent].event["type"] == "webhook.verify"


async def test_one_failure_long_after_an_outage_does_not_disable_a_webhook(
    pool: ConnectionPool, fresh_database_url: str
) -> None:
    wallet = b"\x2b" * 20
    async with receiver() as there:
        hook = await _hook(pool, wallet, there.url)
        async with pool.connection() as connection:  # as giving an event up left it, with no event since
            await connection.execute("UPDATE agent_webhook SET failing_since = now() - interval '10 days'")
        there.answers = [502, 502]
        await _append(pool, wallet, "first")
        async with dispatching(fresh_database_url, retries=(0.05,) * 8):
            await there.until(lambda: len(there.events()) == 3)

            async def is_over() -> bool:
                return (await _row(pool, hook)).failing_since is None

            await until(is_over, "the end of the outage")
        assert (await _row(pool, hook)).status == "active"
        assert len(await _log(pool, wallet)) == 1


async def _wake(pool: ConnectionPool, hook: str) -> None:
    async with pool.connection() as connection, connection.transaction():
        found = await webhook_store.find(connection, hook, lock=True)
        assert found is not None
        await webhook_store.retry_now(connection, found, 0)


async def test_a_disabled_webhook_comes_back_only_within_its_wallets_limit(pool: ConnectionPool) -> None:
    """Otherwise a wallet could keep any number of webhooks, ten at a time."""
    wallet = b"\x29" * 20
    first = await _hook(pool, wallet, "https://example.org/first", status="disabled")
    hooks = [await _hook(pool, wallet, f"https://example.org/{n}") for n in range(webhook_store.MAX_PER_WALLET)]
    with pytest.raises(Problem, match="maximum"):
        await _wake(pool, first)
    assert (await _row(pool, first)).status == "disabled"
    async with pool.connection() as connection:
        await webhook_store.remove(connection, hooks[0])
    await _wake(pool, first)
    assert (await _row(pool, first)).status == "pending_verification"


async def _counted(pool: ConnectionPool, query: str, count: int) -> None:
    async def is_so() -> bool:
        async with pool.connection() as connection:
            return await (await connection.execute(query.encode())).fetchone() == (count,)

    await until(is_so, f"{count} rows: {query}")


async def test_hanging_and_slow_endpoints_do_not_delay_others(
    pool: ConnectionPool, fresh_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are more of them than slots. Every second one accepts each delivery just before its timeout."""
    monkeypatch.setattr(webhook_sending, "TOTAL_SECONDS", webhook_sending.SLOW_SECONDS + 1.0)
    monkeypatch.setattr(webhook_sending, "AT_ONCE_PER_ADDRESS", 1_000)  # all of ours are on one address
    seconds, begun = webhook_sending.SLOW_SECONDS + 0.5, 0

    async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal begun
        begun += 1
        await hostile.silent(reader, writer)

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal begun
        begun += 1
        await asyncio.sleep(seconds)
        await hostile.answering("HTTP/1.1 204 Fine")(reader, writer)

    async with (
        hostile.endpoint(hangs) as hanging,
        hostile.endpoint(late) as slow,
        receiver() as there,
        receiver() as new,
    ):
        count = webhook_dispatcher.AT_ONCE + 8
        for number in range(count):
            wallet = bytes([0x40, number]) * 10
            await _hook(pool, wallet, f"{(hanging, slow)[number % 2]}?{number}")
            await _append(pool, wallet, *(f"event {number}" for number in range(20)))
        well = b"\x24" * 20
        await _hook(pool, well, there.url)
        async with dispatching(fresh_database_url, retries=(0.1,) * 50):
            await _counted(pool, "SELECT count(*) FROM agent_webhook WHERE slow_until > now()", count)
            seconds = 600.0  # from now on nothing ends
            monkeypatch.setattr(webhook_sending, "TOTAL_SECONDS", 600.0)
            filled = begun + webhook_dispatcher.MAX_AT_ONCE[webhook_store.Reliability.FAILING]
            await until(lambda: begun >= filled, "all the places that they get to be taken")
            names = [f"event {number}" for number in range(5)]
            for each in names:
                await _append(pool, well, each)
            hook = await _hook(pool, b"\x27" * 20, new.url, status="pending_verification")
            await there.until(lambda: len(there.events()) == 5)
            await _becomes(pool, hook, "active")
        assert _names(there) == names


async def test_new_callbacks_that_never_answer_do_not_delay_working_webhooks(
    pool: ConnectionPool, fresh_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback costs only a small trade, and nothing is known about it before its first delivery ends."""
    monkeypatch.setattr(webhook_sending, "TOTAL_SECONDS", 600.0)  # not during this test
    monkeypatch.setattr(webhook_sending, "AT_ONCE_PER_ADDRESS", 1_000)  # all of ours are on one address
    begun = 0

    async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal begun
        begun += 1
        await hostile.silent(reader, writer)

    async with hostile.endpoint(hangs) as hanging, receiver() as there:
        async with pool.connection() as connection, connection.transaction():
            for number in range(webhook_dispatcher.AT_ONCE + 8):
                wallet, trade = bytes([0x40, number]) * 10, keccak(text=f"trade {number}")
                await webhook_store.add_callback(connection, wallet, trade, f"{hanging}?{number}")
                source = source_of(EventType.BET_PLACED, trade)
                await event_log.append(connection, [Draft(wallet, EventType.BET_PLACED, source, "{}", trade_id=trade)])
        well = b"\x24" * 20
        await _hook(pool, well, there.url)
        async with dispatching(fresh_database_url):
            await until(lambda: begun >= webhook_dispatcher.MAX_AT_ONCE[webhook_store.Reliability.UNPROVEN])
            await _append(pool, well, "one", "two")
            await there.until(lambda: len(there.events()) == 2)
        assert _names(there) == ["one", "two"]
        assert begun == webhook_dispatcher.MAX_AT_ONCE[webhook_store.Reliability.UNPROVEN]


async def test_idle_webhooks_are_not_read(pool: ConnectionPool, fresh_database_url: str) -> None:
    """Only a new event of their wallet makes webhooks due again, however many are registered."""
    looked_at = "SELECT count(*) FROM agent_webhook WHERE status <> 'disabled' AND attempt_at <= now()"
    wallets = [bytes([0x50, number]) * 10 for number in range(40)]
    async with receiver() as there, dispatching(fresh_database_url):
        for wallet in wallets:
            await _hook(pool, wallet, there.url)
            await _append(pool, wallet, "first")
        await there.until(lambda: len(there.events()) == 40)
        await _counted(pool, looked_at, 0)
        for number in range(3):
            for each in wallets:
                await _append(pool, each, f"more {number}")
        await there.until(lambda: len(there.events()) == 40 * 4)


async def test_a_webhook_that_starts_to_wait_misses_no_event(pool: ConnectionPool) -> None:
    """The event is written while the webhook starts to wait: one of the two transactions sees the other."""
    for number, first in ((1, False), (2, True)):
        wallet = bytes([0x60, number]) * 10
        await _hook(pool, wallet, "https://example.org/hook")
        if not first:
            await _append(pool, wallet, "before")
        async with pool.connection() as connection:
            (taken,) = await webhook_store.claim(connection, 1, webhook_store.Reliability.WORKING)
            if not first:
                await webhook_store.advance(connection, taken, 1)
        async with pool.connection() as writing, pool.connection() as resting:
            async with writing.transaction():
                source = source_of(EventType.TEST, wallet, "in between")
                await event_log.append(writing, [Draft(wallet, EventType.TEST, source, "{}")])
                to_rest = asyncio.create_task(webhook_store.wait_for_events(resting, taken))
                await asyncio.sleep(0.3)
            assert await to_rest
            (taken,) = await webhook_store.claim(resting, 1, webhook_store.Reliability.WORKING)
            assert await webhook_store.advance(resting, taken, taken.next_seq + 1)


async def test_the_lease_of_a_dead_process_expires(pool: ConnectionPool, fresh_database_url: str) -> None:
    wallet = b"\x25" * 20
    async with receiver() as there:
        await _hook(pool, wallet, there.url)
        await _append(pool, wallet, "only")
        async with pool.connection() as connection:
            (taken,) = await webhook_store.claim(connection, 10, webhook_store.Reliability.WORKING)
            assert await webhook_store.claim(connection, 10, webhook_store.Reliability.WORKING) == []
            await connection.execute("UPDATE agent_webhook SET lease_until = now() + interval '1 s'")
        async with dispatching(fresh_database_url):
            await there.until(lambda: len(there.events()) == 1)
            await asyncio.sleep(0.3)
        async with pool.connection() as connection:
            assert not await webhook_store.advance(connection, taken, 7)  # too late to change anything
        assert (await _row(pool, taken.id)).next_seq == 1


class PoolThatStops:
    """A pool that gives out no connections while it is stopped, as under too much load."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self.runs = asyncio.Event()
        self.runs.set()
        self.stopped = asyncio.Event()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        if not self.runs.is_set():
            self.stopped.set()
            await self.runs.wait()
        async with self._pool.connection() as connection:
            yield connection


async def test_a_delayed_process_sends_nothing_after_its_lease_expired(
    pool: ConnectionPool, fresh_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pool stops right after it claimed the endpoint, and recovers long after the lease expired."""
    wallet, slow, claim = b"\x27" * 20, PoolThatStops(pool), webhook_store.claim

    async def claim_and_stop(*of: Any, **how: Any) -> list[webhook_store.WebhookEndpoint]:
        claimed = await claim(*of, **how)
        if claimed and not slow.stopped.is_set():
            slow.runs.clear()
        return claimed

    async with receiver() as there:
        hook = await _hook(pool, wallet, there.url)
        await _append(pool, wallet, "first", "second")
        monkeypatch.setattr(webhook_store, "claim", claim_and_stop)
        late = Dispatcher(fresh_database_url, slow, _sender(), LINKS)  # type: ignore[arg-type]
        task = asyncio.create_task(late.run())
        await asyncio.wait_for(slow.stopped.wait(), PATIENCE)
        async with pool.connection() as connection:
            await connection.execute("UPDATE agent_webhook SET lease_until = now() - interval '1 s'")
        async with dispatching(fresh_database_url):
            await there.until(lambda: len(there.events()) == 2)
            slow.runs.set()
            await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert _names(there) == ["first", "second"]
        assert (await _row(pool, hook)).next_seq == 2


@pytest.mark.parametrize("turns", range(6))
async def test_a_dispatcher_stops_while_it_waits_for_connections(database_url: str, turns: int) -> None:
    async with make_pool(database_url, size=1, autocommit=True) as pool:

        async def stop() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            for each in working:
                each.cancel()

        held = await pool.getconn()
        dispatcher = Dispatcher(database_url, pool, _sender(), LINKS)
        working = [asyncio.create_task(each) for each in (dispatcher.run(), dispatcher.tidy())]
        await until(lambda: pool.get_stats()["requests_waiting"] >= 2, "both waiting for a connection", pause=0.01)
        await asyncio.gather(pool.putconn(held), stop())
        await asyncio.wait(working, timeout=PATIENCE)
        assert all(each.cancelled() for each in working)


async def _callback(pool: ConnectionPool, name: str) -> bytes:
    """Add a trade with a callback, accepted two days ago; return its id."""
    trade_id, wallet = keccak(text=name), keccak(text=name)[:20]
    trade = Bet(bytes(32), 0, 5_000_000, 0, "0x" + wallet.hex(), keccak(text=f"key of {name}"))
    async with pool.connection() as connection, connection.transaction():
        nonce, hook = keccak(text=f"nonce of {name}"), "https://example.org/hook"
        await add_trade(connection, trade, trade_id, nonce, callback_url=hook)
        await connection.execute(
            "UPDATE agent_webhook SET created_at = now() - interval '2 days' WHERE trade_id = %s", (trade_id,)
        )
    return trade_id


async def test_a_callback_whose_trade_never_settles_ends_a_day_later(pool: ConnectionPool) -> None:
    on_its_way, refused, tried_again, placed = [
        await _callback(pool, name) for name in ("on its way", "refused", "tried again", "placed")
    ]
    fail = (
        b"UPDATE outbox_intent SET state = 'failed', reason = 'TooFewShares' "
        b"WHERE id = (SELECT intent_id FROM agent_trade WHERE bet_hash = %s)"
    )
    wallet = keccak(text="placed")[:20]
    async with pool.connection() as connection:
        for each in (refused, tried_again, placed):
            await connection.execute(fail, (each,))
        await webhook_store.add_callback(
            connection, keccak(text="tried again")[:20], tried_again, "https://example.org/hook"
        )
        # A stranger settled it; the stake is missing from the index while that is rebuilt.
        event = Draft(wallet, EventType.BET_PLACED, source_of(EventType.BET_PLACED, placed), "{}", trade_id=placed)
        await event_log.append(connection, [event])
        await webhook_store.delete_expired(connection)
        left = await (await connection.execute("SELECT trade_id FROM agent_webhook")).fetchall()
        assert {bytes(row[0]) for row in left} == {on_its_way, tried_again, placed}
        await connection.execute("UPDATE agent_webhook SET created_at = now() - interval '2 days'")
        await connection.execute(fail, (on_its_way,))
        await webhook_store.delete_expired(connection)
        left = await (await connection.execute("SELECT trade_id FROM agent_webhook")).fetchall()
    assert [bytes(row[0]) for row in left] == [placed]


async def test_the_event_log_is_append_only(pool: ConnectionPool) -> None:
    await _append(pool, b"\x26" * 20, "kept")
    for statement in ("UPDATE agent_event SET payload = '{}'", "DELETE FROM agent_event"):
        async with pool.connection() as connection:
            with pytest.raises(psycopg.errors.RestrictViolation):
                await connection.execute(statement.encode())


async def test_concurrent_writers_leave_no_gaps(pool: ConnectionPool) -> None:
    wallets = [bytes([0x60 + n]) * 20 for n in range(4)]

    async def write(number: int) -> None:
        drafts = [
            Draft(wallet, EventType.TEST, source_of(EventType.TEST, wallet, number, n), "{}")
            for n in range(5)
            for wallet in (wallets if number % 2 else wallets[::-1])
        ]
        async with pool.connection() as connection:
            with contextlib.suppress(ZeroDivisionError):
                async with connection.transaction():
                    await event_log.append(connection, drafts)
                    if number % 5 == 0:
                        raise ZeroDivisionError  # what is not committed takes no number

    await asyncio.gather(*(write(number) for number in range(20)))
    for wallet in wallets:
        assert [each.seq for each in await _log(pool, wallet)] == list(range(16 * 5))
