"""Decisions of the indexer that need no I/O: ancestors, widths, filters, blooms, tables."""

from __future__ import annotations

import asyncio
import random
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from core.contracts.deployments import load_deployment
from core.contracts.events import Role, layouts_of
from core.contracts.events.shared import AUTHORIZATION_CANCELED, AUTHORIZATION_USED, TRANSFER
from core.db.schema import index, index_agent, index_shared, index_stock
from core.errors import DeploymentError
from core.hexadecimal import hex_of
from core.paths import REPOSITORY
from indexer import finality
from indexer.chain import RECHECK_BLOCKS, Recheck
from indexer.completeness import BloomTest, mask
from indexer.errors import NodeFault
from indexer.fetch import decode_logs
from indexer.finality import Fork
from indexer.fold.rows import BlockInfo
from indexer.fold.stock import POSITION
from indexer.history import IN_FLIGHT, LOGS_PER_PAGE, THIN_IN_FLIGHT, WIDEST_BLOCKS, Width
from indexer.sources import sources_of
from indexer.store.tables import column_types
from tests.support.index_chain import SimChain, bloom_of, world_sources
from tests.support.index_world import ADDRESSES, TOKEN, Crowd, address_of, emission

# ---------------------------------------------------------------- reorganizations


def block(number: int, digest: int = 0) -> BlockInfo:
    return BlockInfo(number, bytes([number % 256, digest]) + bytes(30), number, number)


def node_of(hashes: dict[int, bytes]) -> Any:
    """Return a node that has these blocks."""

    async def headers(numbers: list[int]) -> list[Any]:
        return [SimpleNamespace(hash=hex_of(hashes[each])) if each in hashes else None for each in numbers]

    node = SimpleNamespace(headers=headers)
    node.separate_nodes = lambda: [node]
    return node


def fork_of(stored: list[BlockInfo], on_chain: dict[int, bytes]) -> Fork:
    async def below(_connection: object, _chain_id: int, top: int, _limit: int) -> list[BlockInfo]:
        return [each for each in stored if each.number <= top][:10]

    async def after(*_: object) -> None:
        return None

    with patch.multiple(finality, blocks_below=below, first_block_after=after):
        return asyncio.run(finality.find_fork(None, node_of(on_chain), 1, stored[0].number))  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 7))
def test_the_ancestor_is_the_highest_stored_block_the_chain_still_has(length: int, forked: int, sparse: int) -> None:
    stored = [block(number) for number in range(length, 0, -1) if number % sparse == 0 or number == length]
    on_chain = {number: block(number, 0 if number <= forked else 1).hash for number in range(1, length + 5)}
    kept = [each for each in stored if each.number <= forked]
    replaced = [each for each in stored if each.number > forked]
    assert fork_of(stored, on_chain) == Fork(kept[0] if kept else None, replaced[-1] if replaced else None)


def test_a_chain_cut_short_replaced_what_it_no_longer_has() -> None:
    stored = [block(3), block(2), block(1)]
    assert fork_of(stored, {1: block(1).hash, 2: block(2).hash}) == Fork(block(2), block(3))


@pytest.mark.parametrize(
    ("ancestor", "replaced", "agrees"),
    [
        (block(5).hash, block(6, 1).hash, True),
        (block(5).hash, None, True),  # cut short there too
        (block(5).hash, block(6).hash, False),  # still on the old side
        (block(5, 1).hash, block(6, 1).hash, False),  # forked earlier
        (None, None, False),  # too far behind to know
    ],
)
async def test_another_node_confirms_only_the_same_fork(
    ancestor: bytes | None, replaced: bytes | None, agrees: bool
) -> None:
    node = node_of({number: each for number, each in ((5, ancestor), (6, replaced)) if each is not None})
    with nullcontext() if agrees else pytest.raises(NodeFault, match="disagree"):
        await finality.require_agreement(node, Fork(block(5), block(6)))


# ---------------------------------------------------------------- widths


@given(st.lists(st.one_of(st.none(), st.integers(0, 200_000)), max_size=80))
def test_a_width_stays_within_its_bounds(answers: list[int | None]) -> None:
    """None is a refusal."""
    width = Width()
    for logs in answers:
        asked = width.blocks
        if logs is None:
            width.failed(asked)
            assert width.blocks < asked or asked == 1
        else:
            width.succeeded(asked, logs)
        assert 1 <= width.blocks <= min(WIDEST_BLOCKS, width.ceiling)


def test_a_refused_width_is_reached_again() -> None:
    """A node that was slow for a minute gets wide pages again; one with a limit is not tried too often."""
    width = Width()
    for _ in range(20):
        width.succeeded(width.blocks, 0)
    for _ in range(20):
        width.failed(width.blocks)
    assert (width.blocks, width.ceiling) == (1, 1)
    for _ in range(100):
        width.succeeded(width.blocks, 0)
    assert (width.blocks, width.ceiling) == (WIDEST_BLOCKS, WIDEST_BLOCKS)

    limit, refusals = 1_000, 0
    for _ in range(100):
        if width.blocks > limit:
            width.failed(width.blocks)
            refusals += 1
        else:
            width.succeeded(width.blocks, 0)
    assert refusals < 20


def test_a_page_below_the_ceiling_does_not_change_it() -> None:
    width = Width(blocks=100, ceiling=200)
    width.succeeded(100, 0)
    assert width.ceiling == 200


def test_a_width_reaches_the_target_page_size() -> None:
    width = Width()
    for _ in range(30):
        width.succeeded(width.blocks, width.blocks * 7)
    assert LOGS_PER_PAGE * 0.9 <= width.blocks * 7 <= LOGS_PER_PAGE


def test_many_thin_pages_are_fetched_at_once_but_few_thick_ones() -> None:
    width = Width()
    width.succeeded(width.blocks, 3)
    assert width.in_flight == THIN_IN_FLIGHT > IN_FLIGHT
    width.succeeded(width.blocks, LOGS_PER_PAGE)
    assert width.in_flight == IN_FLIGHT


def test_after_a_refusal_fewer_blocks_are_fetched_at_once() -> None:
    width = Width()
    width.succeeded(width.blocks, 0)
    width.failed(width.blocks)
    assert width.in_flight == IN_FLIGHT


def test_thin_pages_grow_to_the_widest_and_no_further() -> None:
    width = Width()
    for _ in range(20):
        width.succeeded(width.blocks, 1)
    assert width.blocks == WIDEST_BLOCKS


def test_rechecked_pages_hold_no_more_logs_than_pages_of_a_backfill() -> None:
    """A dense chain's 2,000 blocks are hundreds of thousands of logs, which would be held at once."""
    recheck, logs_a_block = Recheck(), 100
    for _ in range(20):
        found = recheck.history(1_000_000, 1)
        assert found is not None
        first, last = found
        blocks = last - first + 1
        assert blocks * logs_a_block <= 2 * LOGS_PER_PAGE
        recheck.width.succeeded(blocks, blocks * logs_a_block)
        recheck.history_until = last


def test_history_with_few_logs_is_rechecked_by_thousands_of_blocks() -> None:
    recheck = Recheck()
    for _ in range(20):
        found = recheck.history(1_000_000, 1)
        assert found is not None
        recheck.width.succeeded(found[1] - found[0] + 1, 2)
        recheck.history_until = found[1]
    assert recheck.width.blocks == RECHECK_BLOCKS


# ---------------------------------------------------------------- sources


def test_both_live_networks_have_sources_once_deployed() -> None:
    for name, role in (("stock", Role.SETTLER), ("base", Role.WALLET)):
        deployment = load_deployment(REPOSITORY / "deployments" / f"{name}.json")
        if not deployment.is_deployed:
            with pytest.raises(DeploymentError, match="Nothing is deployed"):
                sources_of(deployment, name)
        else:
            assert role in sources_of(deployment, name).contracts


def test_the_main_filter_names_every_contract_and_every_event() -> None:
    sources = world_sources()
    chosen = sources.main_filter
    assert set(chosen["address"]) == {"0x" + each.hex() for each in [*ADDRESSES.values(), *sources.feeds, TOKEN]}
    topics = {"0x" + topic.hex() for role in Role if role is not Role.TOKEN for topic in layouts_of(role)}
    assert set(chosen["topics"][0]) == topics | {"0x" + AUTHORIZATION_CANCELED.topic.hex()}, (
        "of the token cancellations alone: its transfers and uses are asked for by themselves"
    )


def test_only_the_tokens_payments_to_us_and_their_authorizations_are_fetched() -> None:
    sources = world_sources()
    transfers = sources.transfer_filter
    assert transfers is not None
    assert transfers["topics"][0] == "0x" + TRANSFER.topic.hex()
    assert set(transfers["topics"][2]) == {
        "0x" + bytes(12).hex() + ADDRESSES[role].hex() for role in (Role.SETTLER, Role.WALLET)
    }
    assert sources.authorization_filter(["0xab"])["topics"] == ["0x" + AUTHORIZATION_USED.topic.hex(), ["0xab"]]


# ---------------------------------------------------------------- blooms

# The bits of the header that a node made of a block with one log: a transfer between two wallets of a token.
LOGGED = (
    "5fbdb2315678afecb367f032d93f642f64180aa3",
    "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
    "000000000000000000000000f39fd6e51aad88f6f4ce6ab8827279cfffb92266",
    "000000000000000000000000d8da6bf26964af9d7eed9e03e53415d37aa96045",
)
BITS_OF_THE_NODE = (215, 349, 453, 481, 486, 801, 895, 998, 1060, 1184, 1254, 1443)


def test_a_blocks_bloom_equals_the_nodes() -> None:
    bits = sum(1 << at for at in BITS_OF_THE_NODE)
    assert int(bloom_of(bytes.fromhex(each) for each in LOGGED), 16) == bits
    assert all(bits & mask(bytes.fromhex(each)) == mask(bytes.fromhex(each)) for each in LOGGED)


@given(st.integers(0, 2**32))
def test_a_bloom_never_excludes_a_log_that_exists(seed: int) -> None:
    crowd, chain = Crowd(seed), SimChain()
    test = BloomTest(world_sources())
    for _ in range(12):
        chain.mine([crowd.next(chain.head.world) for _ in range(2)])
    for each in chain.blocks:
        bits = int(each.header.logs_bloom or "0x0", 16)
        ours = [log for log in each.logs if log.address != "0x" + TOKEN.hex()]
        transfers = [log for log in each.logs if log.topics[0] == "0x" + TRANSFER.topic.hex()]
        assert not ours or test.allows_ours(bits)
        assert not transfers or test.allows_payment(bits)


def test_a_bloom_excludes_logs_of_other_contracts() -> None:
    test = BloomTest(world_sources())
    rng = random.Random(1)
    strangers = int(bloom_of(rng.randbytes(20) for _ in range(30)), 16)
    assert not test.allows_ours(strangers)
    assert not test.allows_payment(strangers)
    foreign_transfer = int(bloom_of([TOKEN, TRANSFER.topic, bytes(12) + address_of("stranger")]), 16)
    assert not test.allows_payment(foreign_transfer)


# ---------------------------------------------------------------- tables and signals


def test_every_column_has_a_type_copy_knows() -> None:
    for module in (index, index_stock, index_agent, index_shared):
        for table in vars(module).values():
            if isinstance(table, sa.Table):
                assert len(column_types(table)) == len(table.columns)


def test_an_entry_has_the_columns_of_a_position_in_their_order() -> None:
    """The fold writes new positions as plain tuples, for speed."""
    chain, crowd = SimChain(), Crowd("columns")
    chain.mine([crowd.tx("create", 100, 30, 10**7, 200)])
    chain.mine([crowd.tx("enter", 1, address_of("alice"), 1, 5 * 10**6, None)])
    from indexer.fold.stock import StockFold

    sources = world_sources()
    blocks = {each.header.number: each.header.info(False) for each in chain.blocks}
    fold = StockFold()
    for each in decode_logs([log for b in chain.blocks for log in b.logs], sources, blocks):
        if each.entity is not None:
            fold.apply(each)
    (added,) = [write for write in fold.take_writes() if write.table is index_stock.stock_position]
    row = POSITION.loaded(added.added[-1])
    assert (row.position_id, row.market_id, row.ordinal) == (1 << 32 | 1 << 1 | 1, 1, 2)
    assert (row.owner, row.entered_by) == (address_of("alice"), address_of("alice"))
    assert (row.outcome, row.offered) == (1, 5 * 10**6)
    assert (row.vintage, row.offered_before, row.claimed, row.failed_deliveries) == (2, 0, False, 0)
    assert (row.entered_block, row.entered_at, row.entry_tx) == (2, chain.head.header.timestamp, chain.head.txs[0].hash)


def test_the_indexer_does_not_import_web3() -> None:
    """The hot path uses no general library."""
    for path in Path(REPOSITORY / "indexer").rglob("*.py"):
        assert "web3" not in path.read_text(), path


def test_simulated_logs_have_the_contracts_layouts() -> None:
    log = emission(Role.SETTLER, "Resolved", 7, 1)
    assert log.topics[32:] == (7).to_bytes(32)
    assert log.data == (1).to_bytes(32)
