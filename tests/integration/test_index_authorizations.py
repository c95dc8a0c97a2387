"""Payments in the index, when an attacker uses another wallet's authorization: also after a reorganization, after a
rebuild, and in a fresh index."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from eth_utils.crypto import keccak

from core.contracts.events import Role
from core.db.engine import ConnectionPool
from indexer.chain import RECHECK_AFTER, ChainFollower
from indexer.errors import Contradiction
from indexer.rebuild import rebuild
from indexer.sources import Sources
from tests.conftest import TestPostgres
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_tables import contents, differences, following, fresh_index
from tests.support.index_world import ADDRESSES, Crowd, address_of
from tests.support.prometheus import measured

USD = 10**6
OURS = ADDRESSES[Role.WALLET]
MARKET = keccak(text="market")
ALICE, MALLORY = address_of("alice"), address_of("mallory")
ONE, TWO = b"1" * 32, b"2" * 32

USED, MOVED, CANCELED = "AuthorizationUsed", "Transfer", "AuthorizationCanceled"


@dataclass
class Indexed:
    chain: SimChain
    crowd: Crowd
    node: SimNode
    sources: Sources
    follower: ChainFollower
    pool: ConnectionPool

    async def mine(self, what: str, *args: Any) -> None:
        block = self.chain.mine([self.crowd.tx(what, *args)])
        assert block.txs, f"{what} reverted"
        await self.follower.catch_up()

    async def became(self) -> dict[tuple[bytes, bytes], tuple[str, int | None]]:
        async with self.pool.connection() as connection:
            rows = await connection.execute("SELECT authorizer, nonce, state, value FROM token_authorization")
            return {
                (bytes(payer), bytes(nonce)): (state, None if value is None else int(value))
                for payer, nonce, state, value in await rows.fetchall()
            }


@pytest.fixture
async def indexed(database_url: str) -> AsyncIterator[Indexed]:
    chain, crowd, sources = SimChain(), Crowd("payments"), world_sources()
    node = SimNode(chain)
    chain.mine([crowd.tx("list", MARKET, 10_000, 2, "{}")])
    async with following(database_url, node, sources, afresh=True) as (follower, pool):
        yield Indexed(chain, crowd, node, sources, follower, pool)


async def same_as_fresh(indexed: Indexed, postgres: TestPostgres) -> None:
    async with indexed.pool.connection() as connection:
        ours = await contents(connection)
    await rebuild(indexed.pool, indexed.sources)
    async with indexed.pool.connection() as connection:
        assert not differences(await contents(connection), ours)
    other = postgres.create()
    try:
        assert not differences(await fresh_index(other, indexed.node, indexed.sources), ours)
    finally:
        postgres.drop(other)


async def test_an_authorization_used_by_strangers_has_the_amount_of_its_own_transfer(
    indexed: Indexed, postgres: TestPostgres
) -> None:
    three, four, five = b"3" * 32, b"4" * 32, b"5" * 32
    # One unit by the nonce of a bet of 4 USD, next to 4 USD of the attacker's own.
    paid = ((USED, ALICE, ONE), (MOVED, ALICE, OURS, 1), (USED, MALLORY, ONE), (MOVED, MALLORY, OURS, 4 * USD))
    await indexed.mine("several", paid)
    # One transfer for two authorizations of one transaction.
    await indexed.mine("several", ((USED, ALICE, TWO), (USED, ALICE, three), (MOVED, ALICE, OURS, 4 * USD)))
    # A cancellation, and a plain transfer of the same amount after it.
    await indexed.mine("several", ((CANCELED, ALICE, four), (MOVED, ALICE, OURS, 4 * USD)))
    # The payer's money goes elsewhere, the same amount comes by a plain transfer.
    elsewhere = ((USED, ALICE, five), (MOVED, ALICE, address_of("shop"), 9 * USD), (MOVED, ALICE, OURS, 9 * USD))
    await indexed.mine("several", elsewhere)
    assert await indexed.became() == {
        (ALICE, ONE): ("paid", 1),
        (MALLORY, ONE): ("paid", 4 * USD),
        (ALICE, TWO): ("unpaired", None),
        (ALICE, three): ("paid", 4 * USD),
        (ALICE, four): ("canceled", None),
        (ALICE, five): ("unpaired", None),
    }
    await same_as_fresh(indexed, postgres)


async def test_a_cancellation_by_a_wallet_that_never_paid_is_stored(indexed: Indexed, postgres: TestPostgres) -> None:
    await indexed.mine("cancel", address_of("stranger"), ONE)
    assert await indexed.became() == {(address_of("stranger"), ONE): ("canceled", None)}
    await same_as_fresh(indexed, postgres)


async def test_a_use_that_paid_us_nothing_is_ignored(indexed: Indexed) -> None:
    """The token has many users; only uses in a transaction that paid us are stored."""
    shop = address_of("shop")
    await indexed.mine("several", ((USED, ALICE, ONE), (MOVED, ALICE, shop, USD)))
    assert await indexed.became() == {}
    # In one block with a payment of the same payer, where the node is asked for the payer's authorizations.
    crowd = indexed.crowd
    indexed.chain.mine(
        [
            crowd.tx("several", ((USED, ALICE, TWO), (MOVED, ALICE, shop, USD))),
            crowd.tx("direct", ALICE, 5 * USD, b"3" * 32),
        ]
    )
    await indexed.follower.catch_up()
    assert await indexed.became() == {(ALICE, b"3" * 32): ("paid", 5 * USD)}


async def test_a_reorganized_payment_has_its_final_amount(indexed: Indexed, postgres: TestPostgres) -> None:
    """Four dollars become one unit under the same nonce: what the tables say is the chain's, not the first block's."""
    await indexed.mine("direct", ALICE, 4 * USD, ONE)
    assert await indexed.became() == {(ALICE, ONE): ("paid", 4 * USD)}
    indexed.chain.drop(1)
    indexed.chain.mine([indexed.crowd.tx("several", ((USED, ALICE, ONE), (MOVED, ALICE, OURS, 1)))])
    await indexed.mine("direct", MALLORY, USD, TWO)
    assert await indexed.became() == {(ALICE, ONE): ("paid", 1), (MALLORY, TWO): ("paid", USD)}
    indexed.chain.drop(2)
    indexed.chain.mine([indexed.crowd.tx("cancel", ALICE, ONE)])
    await indexed.mine("direct", MALLORY, USD, TWO)
    assert await indexed.became() == {(ALICE, ONE): ("canceled", None), (MALLORY, TWO): ("paid", USD)}
    await same_as_fresh(indexed, postgres)


async def test_a_transfer_that_is_inserted_later_completes_its_payment(
    indexed: Indexed, postgres: TestPostgres
) -> None:
    """A node without receipts left out the second of two transfers of one payer when their block was new."""

    def forgetful(method: str, answer: Any) -> Any:
        if method == "receipts":
            return None
        return (
            [each for each in answer if each.data != "0x" + (4 * USD).to_bytes(32).hex()]
            if "logs" in method
            else answer
        )

    indexed.node.fault = forgetful
    paid = ((USED, ALICE, ONE), (MOVED, ALICE, OURS, 1), (USED, ALICE, TWO), (MOVED, ALICE, OURS, 4 * USD))
    await indexed.mine("several", paid)
    assert await indexed.became() == {(ALICE, ONE): ("paid", 1), (ALICE, TWO): ("unpaired", None)}
    indexed.node.fault = lambda _method, answer: answer
    indexed.follower._recheck.checked_at = float("-inf")
    for _ in range(RECHECK_AFTER):
        indexed.chain.mine([])
    await indexed.follower.catch_up()
    assert await indexed.became() == {(ALICE, ONE): ("paid", 1), (ALICE, TWO): ("paid", 4 * USD)}
    await same_as_fresh(indexed, postgres)


async def test_paid_stakes_raise_no_alarm(indexed: Indexed) -> None:
    before = measured("vpm_index_unpaid_stakes_total")
    await indexed.mine("stake", MARKET, ALICE, 0, 5 * USD, ONE)
    await indexed.mine("direct", ALICE, 7 * USD, TWO)
    await indexed.mine("credit", MARKET, ALICE, 1, 7 * USD, TWO)
    await indexed.mine("direct", ALICE, 9 * USD, b"3" * 32)
    await indexed.mine("credit", MARKET, ALICE, 1, 8 * USD, b"3" * 32)  # another amount: it goes back
    assert measured("vpm_index_unpaid_stakes_total") == before


SAID = {
    "nothing": (),
    "another amount": ((USED, ALICE, ONE), (MOVED, ALICE, OURS, 4 * USD)),
    "another payer": ((USED, MALLORY, ONE), (MOVED, MALLORY, OURS, 5 * USD)),
    "another nonce": ((USED, ALICE, TWO), (MOVED, ALICE, OURS, 5 * USD)),
    "something between": ((USED, ALICE, ONE), (MOVED, ALICE, address_of("x"), 1), (MOVED, ALICE, OURS, 5 * USD)),
    "the other way round": ((MOVED, ALICE, OURS, 5 * USD), (USED, ALICE, ONE)),
    "a cancellation": ((CANCELED, ALICE, ONE), (MOVED, ALICE, OURS, 5 * USD)),
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID.keys())
async def test_a_stake_whose_payment_the_token_did_not_log_raises_an_alarm(
    indexed: Indexed, said: tuple[tuple[Any, ...], ...]
) -> None:
    before = measured("vpm_index_unpaid_stakes_total")
    await indexed.mine("odd_stake", MARKET, ALICE, 5 * USD, ONE, said)
    assert measured("vpm_index_unpaid_stakes_total") == before + 1
    await indexed.mine("stake", MARKET, ALICE, 0, 5 * USD, b"9" * 32)
    assert measured("vpm_index_unpaid_stakes_total") == before + 1, "the index goes on"


async def test_two_stakes_for_one_payment_raise_an_alarm(indexed: Indexed) -> None:
    before = measured("vpm_index_unpaid_stakes_total")
    await indexed.mine("stake", MARKET, ALICE, 0, 5 * USD, ONE)
    await indexed.mine("odd_stake", MARKET, ALICE, 5 * USD, ONE, ())
    assert measured("vpm_index_unpaid_stakes_total") == before + 1


@pytest.mark.parametrize("together", [True, False])
async def test_a_token_that_lets_an_authorization_be_used_twice_is_refused(indexed: Indexed, together: bool) -> None:
    await indexed.mine("stake", MARKET, ALICE, 0, 5 * USD, ONE)
    used = (USED, ALICE, TWO if together else ONE)
    again = (used, (MOVED, ALICE, OURS, 5 * USD))
    said = (*again, *again) if together else again
    with pytest.raises(Contradiction, match="repeats a row of token_authorization"):
        await indexed.mine("odd_stake", MARKET, ALICE, 5 * USD, TWO, said)
