"""Which transfer an authorization made: the log directly after it, and nothing else.

Every case here is one in which pairing by payer and nearness takes a transfer for a payment that it is not.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.contracts.events import Role
from core.contracts.events.shared import AuthorizationCanceled, AuthorizationUsed, Transfer
from indexer.fetch import decode_logs
from indexer.fold.rows import LogRecord
from indexer.fold.single import authorizations, pairs, relevant
from tests.support.index_chain import SimChain, world_sources
from tests.support.index_world import ADDRESSES, TOKEN, Crowd, address_of

CHAIN_ID = 8453
OURS = ADDRESSES[Role.WALLET]
ALICE, BOB = b"a" * 20, b"b" * 20
ONE, TWO = b"1" * 32, b"2" * 32
TX = b"t" * 32


def log(index: int, event: object, *, tx: bytes = TX, block: int = 1, token: bytes = TOKEN) -> LogRecord:
    return LogRecord(block, index, 77, tx, token, b"", b"", None, event)


def used(payer: bytes = ALICE, nonce: bytes = ONE) -> AuthorizationUsed:
    return AuthorizationUsed(payer, nonce)


def moved(value: int, payer: bytes = ALICE, to: bytes = OURS) -> Transfer:
    return Transfer(payer, to, value)


def became(logs: list[LogRecord]) -> dict[bytes, tuple[str, int | None]]:
    write = authorizations(CHAIN_ID, relevant(logs))
    columns = [column.name for column in write.table.columns]
    rows = [dict(zip(columns, row, strict=True)) for row in write.added]
    return {row["nonce"]: (row["state"], row["value"]) for row in rows}


def test_a_payment_is_the_use_and_the_transfer_after_it() -> None:
    logs = [log(4, used()), log(5, moved(4))]
    assert became(logs) == {ONE: ("paid", 4)}
    (row,) = authorizations(CHAIN_ID, logs).added
    assert row == (CHAIN_ID, ALICE, ONE, TOKEN, "paid", OURS, 4, 1, 4, 77, TX)


def test_one_transfer_backs_one_authorization() -> None:
    """Two uses before one transfer: only the one next to it made it."""
    logs = [log(0, used(nonce=ONE)), log(1, used(nonce=TWO)), log(2, moved(4))]
    assert became(logs) == {ONE: ("unpaired", None), TWO: ("paid", 4)}
    logs = [log(0, used(nonce=ONE)), log(1, moved(4)), log(2, used(nonce=TWO))]
    assert became(logs) == {ONE: ("paid", 4), TWO: ("unpaired", None)}


def test_each_use_has_its_own_amount() -> None:
    """One unit under the honest payer's nonce, next to the attacker's amount."""
    logs = [log(0, used(nonce=ONE)), log(1, moved(1)), log(2, used(nonce=TWO)), log(3, moved(4_000_000))]
    assert became(logs) == {ONE: ("paid", 1), TWO: ("paid", 4_000_000)}


def test_a_transfer_of_another_payer_is_not_the_payment() -> None:
    logs = [log(0, used(ALICE)), log(1, moved(4, BOB)), log(2, moved(1, ALICE))]
    assert became(logs) == {ONE: ("unpaired", None)}


def test_a_transfer_before_the_use_is_not_the_payment() -> None:
    assert became([log(0, moved(4)), log(1, used())]) == {ONE: ("unpaired", None)}


def test_a_plain_transfer_of_the_same_amount_is_not_the_payment() -> None:
    """The authorization paid another address (not among our logs), and a plain transfer reached us."""
    assert became([log(0, used()), log(2, moved(4))]) == {ONE: ("unpaired", None)}
    logs = [log(0, moved(4)), log(1, used()), log(2, moved(1)), log(3, moved(4))]
    assert became(logs) == {ONE: ("paid", 1)}
    assert len(relevant(logs)) == 2, "plain transfers pay for no bet"


def test_a_cancellation_before_a_plain_transfer_pays_nothing() -> None:
    logs = [log(0, AuthorizationCanceled(ALICE, ONE)), log(1, moved(4))]
    assert became(logs) == {ONE: ("canceled", None)}


def test_two_payers_in_one_transaction_keep_theirs() -> None:
    logs = [log(0, used(ALICE, ONE)), log(1, moved(3, ALICE)), log(2, used(BOB, TWO)), log(3, moved(5, BOB))]
    assert became(logs) == {ONE: ("paid", 3), TWO: ("paid", 5)}
    crossed = [log(0, used(ALICE, ONE)), log(1, used(BOB, TWO)), log(2, moved(3, ALICE)), log(3, moved(5, BOB))]
    assert became(crossed) == {ONE: ("unpaired", None), TWO: ("unpaired", None)}


def test_a_pair_is_of_one_transaction_block_and_token() -> None:
    assert pairs([log(3, used()), log(4, moved(4), tx=b"u" * 32)]) == {}
    assert pairs([log(3, used()), log(4, moved(4), block=2)]) == {}
    assert pairs([log(3, used()), log(4, moved(4), token=b"x" * 20)]) == {}


def test_an_authorization_used_without_a_payment_to_us_is_ignored() -> None:
    assert relevant([log(0, used())]) == []
    assert relevant([log(0, used(ALICE)), log(1, moved(4, BOB))]) == []
    canceled = [log(0, AuthorizationCanceled(ALICE, ONE))]
    assert relevant(canceled) == canceled


MOVES = st.lists(
    st.one_of(
        st.builds(moved, st.integers(1, 3), st.sampled_from((ALICE, BOB))),
        st.builds(used, st.sampled_from((ALICE, BOB)), st.integers(0, 2**16).map(lambda n: n.to_bytes(32))),
    ),
    max_size=12,
)


@given(MOVES, st.lists(st.integers(1, 2), min_size=12, max_size=12))
def test_in_any_order_no_transfer_is_used_twice_and_none_by_another(moves: list[object], gaps: list[int]) -> None:
    """A gap of two is a log of the transaction that is none of ours."""
    logs, index = [], 0
    for move, gap in zip(moves, gaps, strict=False):
        logs.append(log(index, move))
        index += gap
    made = pairs(logs)
    transfers = [(each.block, each.index) for each in made.values()]
    assert len(set(transfers)) == len(transfers)
    by_place = {(each.block, each.index): each for each in logs}
    for (block, at), transfer in made.items():
        assert (transfer.block, transfer.index) == (block, at + 1)
        assert by_place[block, at].event.authorizer == transfer.event.sender
    assert pairs(relevant(logs)) == made, "the stored logs give the same pairs"


def test_only_transfers_that_an_authorization_made_are_kept() -> None:
    chain = SimChain()
    crowd = Crowd("pairs")
    chain.mine([crowd.tx("create", 100, 30, 10**7, 200)])
    alice, bob = address_of("alice"), address_of("bob")
    chain.mine(
        [
            crowd.tx("enter", 1, alice, 0, 10**6, bytes(31) + b"\1"),
            crowd.tx("enter", 1, bob, 0, 10**6, None),
            crowd.tx("enter", 1, bob, 1, 10**6, bytes(31) + b"\2"),
        ]
    )
    blocks = {each.header.number: each.header.info(False) for each in chain.blocks}
    kept = relevant(decode_logs(chain.head.logs, world_sources(), blocks))
    names = [type(log.event).__name__ for log in kept]
    assert names == ["AuthorizationUsed", "Transfer", "Entered", "Entered", "AuthorizationUsed", "Transfer", "Entered"]
