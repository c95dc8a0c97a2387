"""What a bet is told of itself when the database falls silent while its block is awaited."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from api.stock.bets import KnownBet
from api.stock.outcomes import BetOutcomes
from core.outbox import RELAY, Intent, IntentState
from tests.support.relayed import relayed

SENT = Intent(
    id=1,
    key="relay:1",
    chain_id=4663,
    group=RELAY,
    kind="enter",
    state=IntentState.SENT,
    outcome=None,
    reason_code=None,
    reason=None,
    nonce=7,
    tx_hash=bytes(31) + b"\x07",
    block_number=None,
    gas_used=None,
    fee_wei=None,
    not_after=None,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


class _Silent:
    """A watch whose database neither answers nor closes the connection."""

    async def wait(self, *_: Any, **__: Any) -> Intent:
        return await asyncio.Future()


async def test_a_silent_database_holds_nobody_longer_than_a_block_may_take() -> None:
    """What was known before stands: it was sent."""
    settings = SimpleNamespace(rpc_request_path_timeout_seconds=1.0, chain=lambda _: SimpleNamespace(finality_blocks=1))
    context: Any = SimpleNamespace(settings=settings, primary=None, pool=None, watch=_Silent())
    sources: Any = SimpleNamespace(contracts=None, client=None)
    bet = relayed(1)
    known = KnownBet(1, SENT, landed=None, was_told=False)
    async with asyncio.timeout(5):
        said = await BetOutcomes(context, sources).of(bet, known, asyncio.get_running_loop().time())
    assert (said.receipt, said.tx_hash) == ("pending", "0x" + bytes(SENT.tx_hash or b"").hex())
