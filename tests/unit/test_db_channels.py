"""Listeners receive what was notified on the channels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.db.channels import (
    AGENT_EVENT,
    CHAIN_INDEXED,
    OUTBOX_QUEUED,
    OUTBOX_STATE,
    PAYLOAD_MAX_BYTES,
    RESYNC,
    IndexStep,
)


@given(st.lists(st.binary(min_size=20, max_size=20), min_size=1, max_size=300))
def test_wallets_are_named_or_where_they_are_too_many_all_are_to_look(wallets: list[bytes]) -> None:
    text = AGENT_EVENT.write(wallets)
    assert len(text.encode()) <= PAYLOAD_MAX_BYTES
    assert AGENT_EVENT.read(text) == (wallets if len(wallets) * 41 - 1 <= PAYLOAD_MAX_BYTES else RESYNC)


def test_at_the_edge_of_a_payload() -> None:
    assert AGENT_EVENT.read(AGENT_EVENT.write([bytes(20)] * 195)) == [bytes(20)] * 195
    assert AGENT_EVENT.read(AGENT_EVENT.write([bytes(20)] * 196)) is RESYNC


@given(st.builds(IndexStep, st.integers(1, 2**53), st.integers(-1, 2**53), st.booleans()))
def test_a_step_of_an_index(step: IndexStep) -> None:
    assert CHAIN_INDEXED.read(CHAIN_INDEXED.write(step)) == step


def test_what_the_triggers_of_the_outbox_write() -> None:
    assert OUTBOX_QUEUED.read("8453:agent:1") == (8453, "agent:1")
    assert OUTBOX_STATE.read("7:sent") == {7: "sent"}
    assert OUTBOX_STATE.read("7:sent,8:mined,12:final") == {7: "sent", 8: "mined", 12: "final"}
