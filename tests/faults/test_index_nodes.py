"""Nodes lag, forget, mix forks, refuse, or disagree; the tables still end up equal to the chain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from msgspec import structs

from core.chain.errors import RpcError, RpcErrorKind
from core.chain.heads import Heads
from core.chain.wire import Log
from core.config import Settings
from core.contracts.events import Role, layouts_of
from core.contracts.events.stock import ENTERED
from core.db.engine import conninfo
from core.hexadecimal import hex_of
from core.service.cancelling import cancel_and_wait
from indexer.chain import ChainFollower
from indexer.completeness import LogCompleteness
from indexer.errors import BeyondFinality, Contradiction, CursorMoved, NodeFault
from indexer.history import Width
from indexer.service import ChainService
from tests.conftest import TestPostgres
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_tables import contents, differences, following, fresh_index
from tests.support.index_world import Crowd
from tests.support.prometheus import measured
from tests.waiting import until

FINALITY = 16
TOPICS = {each.name: hex_of(topic) for role in (Role.FEED, Role.SETTLER) for topic, each in layouts_of(role).items()}
ANSWER, PAUSED = TOPICS["AnswerUpdated"], TOPICS["EntriesPaused"]


def busy_chain(seed: object, blocks: int) -> tuple[SimChain, Crowd]:
    chain, crowd = SimChain(), Crowd(seed)
    grow(chain, crowd, blocks)
    return chain, crowd


def grow(chain: SimChain, crowd: Crowd, blocks: int) -> None:
    for _ in range(blocks):
        chain.mine([crowd.next(chain.head.world) for _ in range(crowd.rng.randrange(1, 5))])


@pytest.fixture
def wiped(database_url: str) -> str:
    with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
        connection.execute(
            "DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            " AND tablename ~ '^(chain|stock|agent|oracle|token|pauser)_' LOOP"
            " EXECUTE 'TRUNCATE ' || t || ' CASCADE'; END LOOP; END $$"
        )
    return database_url


async def same_as_fresh(url: str, postgres: TestPostgres, chain: SimChain, kind: Any = "op-stack") -> None:
    other = postgres.create()
    try:
        theirs = await fresh_index(other, SimNode(chain), world_sources(kind), finality_blocks=FINALITY)
    finally:
        postgres.drop(other)
    async with await psycopg.AsyncConnection.connect(conninfo(url)) as connection:
        different = differences(await contents(connection), theirs)
    assert not different


async def cursor_row(url: str) -> dict[str, Any]:
    async with await psycopg.AsyncConnection.connect(conninfo(url), row_factory=psycopg.rows.dict_row) as connection:
        row = await (await connection.execute("SELECT * FROM chain_cursor")).fetchone()
    assert row is not None
    return row


async def insist(follower: ChainFollower, *kinds: type[Exception], tries: int = 200) -> int:
    """Retry until it works, as the service does; return the number of failures."""
    for failures in range(tries):
        try:
            await follower.catch_up()
        except kinds:
            continue
        return failures
    raise AssertionError(f"still failing after {tries} tries")


# ---------------------------------------------------------------- short and empty answers


async def test_logs_left_out_of_a_range_at_the_head_are_found_by_the_bloom(wiped: str, postgres: TestPostgres) -> None:
    chain, crowd = busy_chain("short", 40)
    node = SimNode(chain)
    rng = crowd.rng

    def forgetful(method: str, answer: Any) -> Any:
        if method != "logs":
            return answer
        gone = {log.block_number for log in answer if rng.random() < 0.5}
        return [log for log in answer if log.block_number not in gone]

    async with following(wiped, node, world_sources(), finality_blocks=10_000) as (follower, _):
        node.fault = forgetful
        await follower.catch_up()
        for _ in range(10):
            grow(chain, crowd, 3)
            await follower.catch_up()
    assert "logs_of_block" in node.asked
    await same_as_fresh(wiped, postgres, chain)


# ---------------------------------------------------------------- contradicting answers


def of_another_fork(log: Log) -> Log:
    return Log(
        log.address, log.topics, log.data, log.block_number, "0x" + "f0" * 32, log.transaction_hash, log.log_index
    )


def removed(log: Log) -> Log:
    fields = {name: getattr(log, name) for name in log.__struct_fields__}
    return Log(**{**fields, "removed": True})


LIES: dict[str, Callable[[list[Log]], list[Log]]] = {
    "of another fork": lambda logs: [of_another_fork(log) for log in logs],
    "marked as removed": lambda logs: [removed(log) for log in logs],
    "twice": lambda logs: [*logs, *logs],
    "of another contract": lambda logs: [
        Log("0x" + "99" * 20, log.topics, log.data, log.block_number, log.block_hash, log.transaction_hash, "0x7")
        for log in logs
    ],
}


@pytest.mark.parametrize("lie", list(LIES))
@pytest.mark.parametrize("finality_blocks", [FINALITY, 10_000], ids=["history", "head"])
@pytest.mark.thorough
async def test_logs_that_cannot_be_are_a_fault_and_nothing_is_written(
    lie: str, finality_blocks: int, wiped: str, postgres: TestPostgres
) -> None:
    chain, _ = busy_chain("lies", 60)
    node = SimNode(chain)
    async with following(wiped, node, world_sources(), finality_blocks=finality_blocks) as (follower, _):
        node.fault = lambda method, answer: LIES[lie](answer) if method == "logs" else answer
        with pytest.raises(NodeFault):
            await follower.catch_up()
        assert (await cursor_row(wiped))["number"] == 0
        node.fault = lambda _method, answer: answer
        await follower.catch_up()
    await same_as_fresh(wiped, postgres, chain)


async def test_missing_logs_of_history_contradict_what_follows_and_stop_the_page(wiped: str) -> None:
    """Without a second node a short answer shows when the logs are folded: nothing of the page is kept."""
    chain, _ = busy_chain("missing", 80)
    node = SimNode(chain)
    entered = next(log.topics[0] for block in chain.blocks for log in block.logs if len(log.topics) == 4)
    node.fault = lambda method, answer: (
        [log for log in answer if log.topics[0] != entered] if method == "logs" else answer
    )
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        with pytest.raises(Exception, match="block"):
            await follower.catch_up()
        assert (await cursor_row(wiped))["number"] < 60


@pytest.mark.parametrize("at_once", [1, 4])
async def test_pages_before_a_contradiction_are_kept(at_once: int, wiped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pages are written together: the newest blocks kept are compared with the node again."""

    async def not_sampled(*_: Any) -> None:
        """The blocks that are sampled happen to have all their logs."""

    monkeypatch.setattr("indexer.history.PAGES_AT_ONCE", at_once)
    monkeypatch.setattr(LogCompleteness, "sample", not_sampled)
    chain, _ = busy_chain("kept", 80)
    node = SimNode(chain)
    entered = next(log.topics[0] for block in chain.blocks for log in block.logs if len(log.topics) == 4)
    node.fault = lambda method, answer: (
        [log for log in answer if log.topics[0] != entered or int(log.block_number, 16) < 40]
        if method == "logs"
        else answer
    )
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        follower._width = Width(blocks=6, ceiling=6, widest=6)
        with pytest.raises(Contradiction):
            await follower.catch_up()
        assert (await cursor_row(wiped))["number"] >= 35


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("kind", [RpcErrorKind.RANGE_TOO_WIDE, RpcErrorKind.TIMEOUT])
@pytest.mark.thorough
async def test_a_range_too_wide_is_asked_for_in_halves(kind: RpcErrorKind, wiped: str, postgres: TestPostgres) -> None:
    chain, _ = busy_chain("wide", 150)
    node = SimNode(chain)
    widest = 7

    def narrow(method: str, answer: Any) -> Any:
        if method == "logs" and answer:
            blocks = int(answer[-1].block_number, 16) - int(answer[0].block_number, 16)
            if blocks >= widest:
                raise RpcError(kind, "query returned more than we like")
        return answer

    node.fault = narrow
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        failures = await insist(follower, RpcError)
    assert failures < 30
    await same_as_fresh(wiped, postgres, chain)


async def test_a_node_that_fails_at_random_only_costs_time(wiped: str, postgres: TestPostgres) -> None:
    chain, crowd = busy_chain("flaky", 100)
    node = SimNode(chain)

    def flaky(_method: str, answer: Any) -> Any:
        if crowd.rng.random() < 0.2:
            raise RpcError(crowd.rng.choice((RpcErrorKind.RATE_LIMITED, RpcErrorKind.PRUNED)), "not now")
        return answer

    node.fault = flaky
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        failed = 0
        for _ in range(20):
            failed += await insist(follower, RpcError, NodeFault)
            grow(chain, crowd, 2)
        node.fault = lambda _method, answer: answer
        await follower.catch_up()
    assert failed > 5
    await same_as_fresh(wiped, postgres, chain)


# ---------------------------------------------------------------- heads


async def test_a_lower_head_is_no_reorganization(wiped: str, postgres: TestPostgres) -> None:
    chain, crowd = busy_chain("behind", 60)
    node = SimNode(chain)
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        await follower.catch_up()
        before = await cursor_row(wiped)
        for back in (1, 5, 40):
            node.fault = lambda method, answer, back=back: (
                chain.blocks[-1 - back].header if method == "head" else answer
            )
            await follower.catch_up()
            row = await cursor_row(wiped)
            assert (row["number"], row["hash"]) == (before["number"], before["hash"])
        node.fault = lambda _method, answer: answer
        grow(chain, crowd, 3)
        await follower.catch_up()
    await same_as_fresh(wiped, postgres, chain)


async def test_a_head_the_node_does_not_have_is_a_fault(wiped: str, postgres: TestPostgres) -> None:
    chain, crowd = busy_chain("ahead", 30)
    node = SimNode(chain)
    async with following(wiped, node, world_sources(), finality_blocks=10_000) as (follower, _):
        grow(chain, crowd, 5)
        far = chain.head.header
        chain.drop(5)
        node.fault = lambda method, answer: far if method == "head" else answer
        with pytest.raises(NodeFault, match="does not have block"):
            await follower.catch_up()
        node.fault = lambda _method, answer: answer
        grow(chain, crowd, 7)
        await follower.catch_up()
    await same_as_fresh(wiped, postgres, chain)


async def test_heads_repeated_skipped_and_out_of_order_are_harmless(wiped: str, postgres: TestPostgres) -> None:
    chain, crowd = busy_chain("jumpy", 20)
    node = SimNode(chain)
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        for _ in range(40):
            grow(chain, crowd, crowd.rng.randrange(4))
            said = chain.blocks[-1 - crowd.rng.randrange(min(4, len(chain.blocks)))].header
            node.fault = lambda method, answer, said=said: said if method == "head" else answer
            await follower.catch_up()
        node.fault = lambda _method, answer: answer
        await follower.catch_up()
    await same_as_fresh(wiped, postgres, chain)


# ---------------------------------------------------------------- agreement of nodes, and depth


async def test_nothing_is_undone_until_both_nodes_agree(wiped: str, postgres: TestPostgres) -> None:
    chain, crowd = busy_chain("two nodes", 40)
    old = SimChain(blocks=[*chain.blocks])
    del old.blocks[-1]  # the constructor put a first block on top
    assert old.blocks == chain.blocks
    other = SimNode(old)
    node = SimNode(chain, others=(other,))
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        await follower.catch_up()
        before = await cursor_row(wiped)
        chain.drop(6)
        grow(chain, crowd, 8)
        for _ in range(3):
            with pytest.raises(NodeFault, match="disagree"):
                await follower.catch_up()
        assert (await cursor_row(wiped))["hash"] == before["hash"]
        other.chain = chain
        await follower.catch_up()
    await same_as_fresh(wiped, postgres, chain)


async def test_a_node_that_reports_heads_but_refuses_logs_does_not_keep_the_index_fresh(wiped: str) -> None:
    """Otherwise stale tables would count as fresh while the refusals last."""
    chain, crowd = busy_chain("refused", 20)
    node = SimNode(chain)

    def refuses(method: str, answer: Any) -> Any:
        if method in {"logs", "logs_of_block", "receipts"}:
            raise RpcError(RpcErrorKind.RATE_LIMITED, "eth_getLogs is not available")
        return answer

    async with following(wiped, node, world_sources()) as (follower, _):
        await follower.catch_up()
        node.fault = refuses
        for _round in range(3):
            grow(chain, crowd, 1)
            with pytest.raises(RpcError):
                await follower.catch_up()
        seen = [(await cursor_row(wiped))["head_seen_at"]]
        for _round in range(2):
            grow(chain, crowd, 1)
            with pytest.raises(RpcError):
                await follower.catch_up()
            seen.append((await cursor_row(wiped))["head_seen_at"])
        assert len(set(seen)) == 1
        node.fault = lambda _method, answer: answer
        await follower.catch_up()
        row = await cursor_row(wiped)
        assert (row["head_number"], row["number"]) == (chain.head.header.number, chain.head.header.number)
        assert row["head_seen_at"] > seen[0]


@pytest.mark.parametrize("tag", [None, 8], ids=["by depth", "by the finalized tag"])
async def test_a_reorganization_beyond_finality_stops_serves_stale_and_heals(
    tag: int | None, wiped: str, postgres: TestPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.finality.ASK_SECONDS", 0)  # also of the false fork the node says what is final
    chain, crowd = busy_chain("deep", 60)
    node = SimNode(chain)
    node.finalized_depth = tag
    deepest = FINALITY if tag is None else tag
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, pool):
        await follower.catch_up()
        async with pool.connection() as connection:
            before = await contents(connection)
        sound = [*chain.blocks]
        chain.drop(deepest + 1)
        grow(chain, crowd, deepest + 3)
        for _ in range(2):
            with pytest.raises(BeyondFinality, match="was final") as caught:
                await follower.catch_up()
            await follower.halt(caught.value.message)
        row = await cursor_row(wiped)
        assert row["state"] == "halted"
        assert "was final" in row["problem"]
        async with pool.connection() as connection:
            assert not differences(await contents(connection), before)
        chain.blocks = sound  # the node comes to its senses
        chain.drop(deepest)
        grow(chain, crowd, deepest + 1)
        await follower.catch_up()
        row = await cursor_row(wiped)
        assert (row["state"], row["problem"]) == ("tail", None)
    await same_as_fresh(wiped, postgres, chain)


@pytest.mark.parametrize("case", ["cut short", "cut short, then longer", "another chain"])
@pytest.mark.thorough
async def test_a_development_chain_may_come_back_from_any_earlier_state(
    case: str, wiped: str, postgres: TestPostgres
) -> None:
    chain, crowd = busy_chain("restored", 90)
    node = SimNode(chain)
    async with following(wiped, node, world_sources("local"), finality_blocks=FINALITY) as (follower, _):
        await follower.catch_up()
        if case == "another chain":
            chain.blocks = chain.blocks[:1]
            grow(chain, Crowd("another"), 30)
        else:
            chain.drop(70)
            if case == "cut short, then longer":
                grow(chain, crowd, 100)
        await follower.catch_up()
        await same_as_fresh(wiped, postgres, chain, "local")
        grow(chain, crowd, 5)
        await follower.catch_up()
    await same_as_fresh(wiped, postgres, chain, "local")


# ---------------------------------------------------------------- two at once


async def test_two_writers_at_once_never_write_twice(wiped: str, postgres: TestPostgres) -> None:

    chain, crowd = busy_chain("twins", 30)
    sources = world_sources()
    moved = 0

    async def work(follower: ChainFollower) -> None:
        nonlocal moved
        while follower.cursor is None or follower.cursor.number < 120:
            try:
                await follower.catch_up()
            except CursorMoved:
                moved += 1
                await follower.open()
            await asyncio.sleep(0)

    async def life() -> None:
        while len(chain.blocks) <= 120:
            grow(chain, crowd, 1)
            await asyncio.sleep(0.005)

    async with (
        following(wiped, SimNode(chain), sources, finality_blocks=FINALITY) as (one, _),
        following(wiped, SimNode(chain), sources, finality_blocks=FINALITY) as (two, _),
    ):
        await asyncio.wait_for(asyncio.gather(work(one), work(two), life()), 60)
    assert moved > 0
    await same_as_fresh(wiped, postgres, chain)


# ---------------------------------------------------------------- contradictions


async def test_logs_that_keep_contradicting_halt_the_chain_until_they_stop(wiped: str, postgres: TestPostgres) -> None:
    chain, crowd = busy_chain("halt", 30)
    node = SimNode(chain)
    entered = "0x" + ENTERED.topic.hex()
    settings = Settings.model_validate({"DATABASE_URL": wiped})
    async with following(wiped, node, world_sources(), finality_blocks=10_000) as (follower, pool):
        await follower.catch_up()
        service = ChainService(settings.chain("base"), settings, pool)
        node.fault = lambda method, answer: (
            [log for log in answer if log.topics[0] != entered]
            if method.startswith("logs")
            else (None if method == "receipts" else answer)
        )
        while not any(log.topics[0] == entered for log in chain.head.logs):
            grow(chain, crowd, 1)
        grow(chain, crowd, 60)
        working = asyncio.create_task(service._follow(follower, Heads((), 0.01), None, None))  # type: ignore[arg-type]
        try:
            await _until_state(wiped, "halted")
            assert "In block" in (await cursor_row(wiped))["problem"]
            assert (await service.health())[1]
            node.fault = lambda _method, answer: answer
            await _until_state(wiped, "tail")
        finally:
            await cancel_and_wait(working)
    await same_as_fresh(wiped, postgres, chain)


async def _until_state(url: str, state: str) -> None:
    async def there() -> bool:
        return bool((await cursor_row(url))["state"] == state)

    await until(there, f"the state {state}")


# ---------------------------------------------------------------- one log of several left out


def leaving_out(node: SimNode, every: int, *methods: str) -> list[Log]:
    """Make a node omit one log in `every` from those answers, always the same ones, and collect them."""
    gone: list[Log] = []

    def fault(method: str, answer: Any) -> Any:
        if method not in methods or answer is None:
            return answer
        kept = [log for log in answer if int(log.transaction_hash[-4:], 16) % every or not int(log.log_index, 16)]
        gone.extend(log for log in answer if log not in kept)
        return kept

    node.fault = fault
    return gone


async def test_one_log_left_out_at_the_head_is_found_in_the_receipts(wiped: str, postgres: TestPostgres) -> None:
    chain, crowd = busy_chain("one of several", 20)
    node = SimNode(chain)
    async with following(wiped, node, world_sources(), finality_blocks=10_000) as (follower, _):
        gone = leaving_out(node, 3, "logs", "logs_of_block")
        for _ in range(15):
            await follower.catch_up()
            grow(chain, crowd, 3)
        await follower.catch_up()
    assert len({log.topics[0] for log in gone}) >= 8
    await same_as_fresh(wiped, postgres, chain)


async def test_one_log_left_out_at_the_head_is_found_at_a_second_node(wiped: str, postgres: TestPostgres) -> None:
    chain, crowd = busy_chain("of two nodes", 20)
    other = SimNode(chain)
    node = SimNode(chain, others=(other,))
    async with following(wiped, node, world_sources(), finality_blocks=10_000) as (follower, _):
        gone = leaving_out(node, 3, "logs", "logs_of_block")
        for _ in range(10):
            await follower.catch_up()
            grow(chain, crowd, 3)
        await follower.catch_up()
    assert gone
    assert "receipts" not in node.asked + other.asked
    await same_as_fresh(wiped, postgres, chain)


async def test_receipts_with_a_gap_prove_nothing() -> None:
    chain, _ = busy_chain("gaps", 30)
    block = next(block for block in chain.blocks if len(block.logs) > 2)
    node = SimNode(chain)
    completeness = LogCompleteness(node, "base")
    assert await completeness.receipts(block.header.hash) == list(block.logs)
    node.fault = lambda _method, answer: [answer[0], *answer[2:]]
    assert await completeness.receipts(block.header.hash) is None


@pytest.mark.parametrize("whole_receipts", [True, False])
@pytest.mark.thorough
async def test_history_of_two_nodes_is_compared(wiped: str, postgres: TestPostgres, whole_receipts: bool) -> None:
    chain, _ = busy_chain("compared", 120)
    node = SimNode(chain, others=(SimNode(chain),))
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        gone = leaving_out(node, 20, "logs", "logs_of_block")
        if not whole_receipts:
            for each in (node, *node.others):
                without_receipts(each)
            with pytest.raises(NodeFault, match="disagree on the logs"):
                await follower.catch_up()
            assert (await cursor_row(wiped))["number"] == 0
            node.fault = lambda _method, answer: answer
        await follower.catch_up()
    assert gone
    await same_as_fresh(wiped, postgres, chain)


def without_receipts(node: SimNode) -> None:
    before = node.fault
    node.fault = lambda method, answer: None if method == "receipts" else before(method, answer)


async def test_history_of_one_node_is_sampled_and_then_read_block_by_block(wiped: str, postgres: TestPostgres) -> None:
    chain, _ = busy_chain("sampled", 200)
    node = SimNode(chain)
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        gone = leaving_out(node, 3, "logs", "logs_of_block")
        assert await insist(follower, NodeFault, Contradiction, tries=20) >= 1
    assert gone
    await same_as_fresh(wiped, postgres, chain)


@pytest.mark.parametrize("finality_blocks", [FINALITY, 10_000], ids=["history", "head"])
@pytest.mark.thorough
async def test_a_wrong_block_that_was_committed_heals(wiped: str, postgres: TestPostgres, finality_blocks: int) -> None:
    """A single node without receipts lacked logs when the blocks were new; some time later it has them."""
    mended, unproved = measured("vpm_index_repaired_logs_total"), measured("vpm_index_unproved_blocks_total")
    chain, crowd = busy_chain("heals", 90)
    node = SimNode(chain)
    lost = {ANSWER, PAUSED}
    whole = [False]

    def fault(method: str, answer: Any) -> Any:
        if method == "receipts":
            return None
        if method in ("logs", "logs_of_block") and not whole[0]:
            return [log for log in answer if log.topics[0] not in lost]
        return answer

    node.fault = fault
    async with following(wiped, node, world_sources(), finality_blocks=finality_blocks) as (follower, _):
        await follower.catch_up()
        whole[0] = True
        for _ in range(12):
            follower._recheck.checked_at = float("-inf")
            grow(chain, crowd, 1)
            await follower.catch_up()
    assert measured("vpm_index_repaired_logs_total") > mended
    assert measured("vpm_index_unproved_blocks_total") > unproved
    await same_as_fresh(wiped, postgres, chain)


@pytest.mark.parametrize("passed", [0, 200], ids=["new", "old"])
async def test_a_wrong_block_that_contradicts_what_follows_heals(
    wiped: str, postgres: TestPostgres, passed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later block builds on logs that one block lacks: nothing more can be indexed until they are inserted.
    With many blocks between them they are history, which is rechecked a page at a time."""
    monkeypatch.setattr("indexer.chain.RECHECK_SECONDS", 0.0 if passed else float("inf"))
    chain, crowd = busy_chain("contradicts", 30)
    node = SimNode(chain)
    entered = "0x" + ENTERED.topic.hex()

    def forgetful(method: str, answer: Any) -> Any:
        if method == "receipts":
            return None
        return [log for log in answer if log.topics[0] != entered] if method.startswith("logs") else answer

    async with following(wiped, node, world_sources(), finality_blocks=10_000) as (follower, _):
        await follower.catch_up()
        node.fault = forgetful
        while not any(log.topics[0] == entered for log in chain.head.logs):
            grow(chain, crowd, 1)
            await follower.catch_up()
        for _ in range(passed):
            chain.mine([])
        await follower.catch_up()
        with pytest.raises(Contradiction):  # noqa: PT012 - whichever block it is
            for _ in range(200):
                grow(chain, crowd, 1)
                await follower.catch_up()
        node.fault = lambda _method, answer: answer
        assert await insist(follower, Contradiction, tries=10) > 0
    await same_as_fresh(wiped, postgres, chain)


async def test_the_lag_is_computed_at_the_scrape(wiped: str) -> None:
    chain, _ = busy_chain("stuck", 20)
    node, name = SimNode(chain), world_sources().name

    def lag() -> float:
        return measured("vpm_index_lag_seconds", chain=name)

    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        await follower.catch_up()
        first = lag()
        await asyncio.sleep(1.2)
        assert lag() >= first + 1.0
        await follower.catch_up()
        assert lag() < 1.0


# ---------------------------------------------------------------- headers that do not belong together


async def test_a_header_of_another_fork_between_two_is_a_fault(wiped: str, postgres: TestPostgres) -> None:
    chain, crowd = busy_chain("between", 10)
    for number in range(20):
        chain.mine([crowd.next(chain.head.world)] if number % 2 else [])
    node = SimNode(chain)
    async with following(wiped, node, world_sources(), finality_blocks=10_000) as (follower, _):
        empty = next(block.header for block in chain.blocks[12:] if not block.logs)
        other = structs.replace(empty, hash="0x" + "f0" * 32)
        node.fault = lambda method, answer: (
            [other if each == empty else each for each in answer] if method == "headers" else answer
        )
        with pytest.raises(NodeFault, match="changed at block"):
            await follower.catch_up()
        assert (await cursor_row(wiped))["number"] == 0
        node.fault = lambda _method, answer: answer
        await follower.catch_up()
    await same_as_fresh(wiped, postgres, chain)


async def test_history_is_not_read_on_top_of_a_replaced_block(wiped: str, postgres: TestPostgres) -> None:
    """The last blocks were replaced while no indexer ran, and so many followed that they are history by now."""
    chain, crowd = busy_chain("replaced and gone on", 60)
    node = SimNode(chain)
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        await follower.catch_up()
        chain.drop(5)
        grow(chain, crowd, 120)
        await follower.catch_up()
    await same_as_fresh(wiped, postgres, chain)


async def test_the_last_block_of_a_page_of_history_is_that_of_its_logs(wiped: str, postgres: TestPostgres) -> None:
    chain, crowd = busy_chain("the last of a page", 100)
    while not chain.blocks[-1 - FINALITY].logs:
        grow(chain, crowd, 1)
    node = SimNode(chain)
    last = chain.blocks[-1 - FINALITY].header
    other = structs.replace(last, hash="0x" + "f0" * 32)
    async with following(wiped, node, world_sources(), finality_blocks=FINALITY) as (follower, _):
        node.fault = lambda method, answer: (
            [other if each == last else each for each in answer] if method == "headers" else answer
        )
        with pytest.raises(NodeFault, match="another block hash than its header"):
            await follower.catch_up()
        node.fault = lambda _method, answer: answer
        await follower.catch_up()
    await same_as_fresh(wiped, postgres, chain)
