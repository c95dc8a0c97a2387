"""The answer to a bet during which the database stops responding."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from aiohttp.test_utils import make_mocked_request

from api.limits import ConcurrencyLimiter
from api.payments.pipeline import Payments
from api.problems import Problem
from api.stock.bets import ATTEMPTS
from api.stock.relay import Relay, RelayBody, RelaySubmission
from core.outbox import Intent, IntentState
from tests.support.signed_bets import CHAIN, relayed
from tests.waiting import PATIENCE

SENT = Intent(
    id=1,
    key="relay:1",
    state=IntentState.SENT,
    outcome=None,
    reason_code=None,
    reason=None,
    nonce=7,
    tx_hash=bytes(31) + b"\x07",
    block_number=None,
    gas_used=None,
    fee_wei=None,
)


class _Silent:
    """A watch whose database neither answers nor closes the connection."""

    async def wait(self, *_: Any, **__: Any) -> Intent:
        return await asyncio.Future()


class _Lost:
    def connection(self, *_: Any) -> Any:
        raise psycopg.OperationalError("it is away")

    def get_stats(self) -> dict[str, int]:
        return {}


def parts() -> tuple[Any, Any]:
    settings = SimpleNamespace(rpc_request_path_timeout_seconds=1.0, chain=lambda _: SimpleNamespace(finality_blocks=1))
    context = SimpleNamespace(
        settings=settings, primary=None, pool=_Lost(), watch=_Silent(), limits=None, payments=None
    )
    deployment = SimpleNamespace(chain_id=CHAIN, token=lambda _: None)
    return context, SimpleNamespace(contracts=None, client=None, deployment=deployment, index=None, oracle=None)


def submission() -> RelaySubmission:
    return RelaySubmission(Relay(*parts()), relayed(1), None, asyncio.get_running_loop().time())


async def test_a_bet_stays_pending_if_the_database_hangs_while_it_is_awaited() -> None:
    async with asyncio.timeout(PATIENCE):
        context, _ = parts()
        payments = Payments(context, "stock", ATTEMPTS, "")
        answer = await payments._outcome(submission(), SENT)
    assert (answer.receipt, answer.tx_hash) == ("pending", SENT.tx_hash_hex)


async def test_a_bet_that_cannot_be_enqueued_is_unavailable_and_not_unknown() -> None:
    context, sources = parts()
    context.payments = ConcurrencyLimiter(1, 1)
    context.settings.trust_proxy = False
    relay = Relay(context, sources)
    bet = RelaySubmission(relay, relayed(1), None, 0.0)
    bet.check = bet._check_lanes  # type: ignore[assignment,method-assign]
    with pytest.raises(Problem) as refused:
        await relay.payments.run(make_mocked_request("POST", "/"), bet)
    assert (refused.value.status, refused.value.code) == (503, "relay_unavailable")
    assert refused.value.extra["escapeKit"]


async def test_a_landed_bet_waits_for_its_receipt_without_a_place_among_those_being_checked() -> None:
    context, sources = parts()
    context.payments = ConcurrencyLimiter(1, 1)
    context.settings.trust_proxy = False
    relay = Relay(context, sources)
    bet = RelaySubmission(relay, relayed(1), None, 0.0)

    async def check() -> RelayBody:
        return await bet._confirmed(bytes(32))

    async def position(_tx: bytes) -> None:
        with context.payments.place("198.51.100.7"):  # raises LimiterFull if the bet still has its place
            pass

    bet.check, bet._position = check, position  # type: ignore[method-assign]
    assert (await relay.payments.run(make_mocked_request("POST", "/"), bet)).receipt == "confirmed"
