"""A payer whose authorization was used is never asked to pay again, unless it was cancelled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import MagicMock

import pytest
from aiohttp.test_utils import make_mocked_request

from api.agent.errors import CATALOGUE, RETRIABLE
from api.agent.trade import refusals as trade_refusals
from api.agent.trade.orders import TRADE_RATE
from api.agent.trade.records import ATTEMPTS
from api.agent.trade.trading import TradeSubmission
from api.limits import ConcurrencyLimiter
from api.payments.pipeline import Payments
from api.problems import Problem
from core.contracts.statuses import RefundReason
from core.outbox import EXPIRED, OVERTAKEN, PAYER_REASONS, Intent, IntentState, MinedOutcome
from tests.support.agent_markets import stake

TX = b"\x07" * 32
PAY_AGAIN = ("sign a", "sign again", "sign one", "fresh one", "new authorization", "fresh nonce")


def words(refusal: Problem) -> str:
    return f"{refusal.message} {refusal.extra.get('hint', CATALOGUE[refusal.code].hint)}".lower()


def submission() -> TradeSubmission:
    trade = MagicMock(idem_key="a key", wallet=stake(0, 1, 0, 1).wallet)
    return TradeSubmission(MagicMock(), MagicMock(), trade, MagicMock())


def intent(reason_code: str | None, *, reason: str = "The token said no.") -> Intent:
    return Intent(
        id=1, key="k", state=IntentState.FAILED,
        outcome=MinedOutcome.REVERTED,
        reason_code=reason_code, reason=reason, nonce=1, tx_hash=TX, block_number=1, gas_used=1, fee_wei=1,
    )  # fmt: skip


USED = [
    trade_refusals.payment_not_indexed(),
    trade_refusals.unpaired(TX),
    trade_refusals.not_booked_yet(5_000_000, TX),
    trade_refusals.refused(intent("AuthorizationAlreadyUsed")),
    trade_refusals.refused(intent("AuthorizationUsedOrCanceled")),
    trade_refusals.refused(intent("AuthorizationAlreadyBooked")),
    trade_refusals.refused(intent("IdempotencyKeyUsed")),
    trade_refusals.refused(intent(OVERTAKEN)),
    trade_refusals.refused(intent(EXPIRED)),
    trade_refusals.settling(),
    trade_refusals.unknown("0x"),
]
SETTLED = [
    trade_refusals.authorization_taken(),
    trade_refusals.other_amount(1, 5_000_000, TX),
    trade_refusals.other_use("another size.", TX),
    trade_refusals.has_paid(stake(0, 1, 0, 1)),
    *(trade_refusals.refunded(stake(None, 1, 0, 0, refund_reason=why)) for why in list(RefundReason)[1:]),
    trade_refusals.refused(intent("NotSignedBy")),
    trade_refusals.refused(intent(None)),
]


@pytest.mark.parametrize("refusal", USED, ids=lambda each: each.message[:40])
def test_a_refusal_with_an_unknown_outcome_is_retriable(refusal: Problem) -> None:
    assert refusal.code in RETRIABLE
    assert not any(each in words(refusal) for each in PAY_AGAIN)
    assert "again" in words(refusal)


@pytest.mark.parametrize("replay", [True, False])
@pytest.mark.parametrize(
    "why", ["IdempotencyKeyUsed", "Closed", "PotFull", "TooFewShares", "ERC20InsufficientBalance", "NotSignedBy", None]
)
async def test_a_lookup_of_a_bet_does_not_report_a_final_refusal(why: str | None, replay: bool) -> None:
    """A third party may have submitted it, which would explain the refusal: only the chain can say."""
    trade = submission()
    trade._order = None if replay else MagicMock()
    with pytest.raises(Problem) as refused:
        await trade.refused(intent(why))
    assert refused.value.code in RETRIABLE
    assert "moneyMoved" not in refused.value.extra
    assert fits_in_the_wallets_minute(refused.value)  # the attempt is over: a retry makes another


@pytest.mark.parametrize(
    "refusal",
    [
        trade_refusals.funds_reserved(5_000_000),
        trade_refusals.duplicate_in_flight(TX),
        trade_refusals.unavailable("Base cannot be reached"),
        trade_refusals.refused(intent("StakesArePaused")),
        *(each for each in USED if "Retry-After" in each.headers),
    ],
    ids=lambda each: each.message[:40],
)
def test_retrying_as_asked_does_not_use_up_the_wallets_minute(refusal: Problem) -> None:
    """What they wait for may take a minute, during which nothing is traded."""
    assert fits_in_the_wallets_minute(refusal)


def test_a_duplicate_does_not_carry_the_call_that_would_bet_twice() -> None:
    trade = submission()
    trade._escape_kit = {"function": "settle"}
    assert trade.escape_kit_for(trade_refusals.duplicate_in_flight(TX)) is None
    assert trade.escape_kit_for(trade_refusals.funds_reserved(1)) is trade._escape_kit


def fits_in_the_wallets_minute(refusal: Problem) -> bool:
    return int(refusal.headers["Retry-After"]) * TRADE_RATE.amount > TRADE_RATE.get_expiry()


@pytest.mark.parametrize("refusal", SETTLED, ids=lambda each: each.message[:40])
def test_a_used_payment_never_leads_to_a_request_for_another(refusal: Problem) -> None:
    assert refusal.code == "payment_invalid"
    assert not any(each in words(refusal) for each in PAY_AGAIN)


@pytest.mark.parametrize("refusal", SETTLED[1:], ids=lambda each: each.message[:40])
def test_a_final_payment_refusal_says_whether_money_moved(refusal: Problem) -> None:
    by_the_chain = refusal.message == "The token said no."
    assert refusal.extra["moneyMoved"] is not by_the_chain
    assert trade_refusals.cancelled(TX).extra["moneyMoved"] is False


def test_only_a_cancelled_authorization_asks_for_a_fresh_one() -> None:
    refusal = trade_refusals.cancelled(TX)
    assert (refusal.code, refusal.extra["txHash"]) == ("payment_invalid", "0x" + TX.hex())
    assert "sign a new authorization" in words(refusal)


def test_the_catalogues_own_hint_asks_for_no_other_payment() -> None:
    assert not any(each in CATALOGUE["payment_invalid"].hint.lower() for each in PAY_AGAIN)


@pytest.mark.parametrize("reason", list(RefundReason)[1:])
def test_every_refund_says_why(reason: RefundReason) -> None:
    said = trade_refusals.refunded(stake(None, 2_500_000, 0, 0, refund_reason=reason))
    assert "2.5 USDC" in said.message
    assert "refunded in full" in said.message


@pytest.mark.parametrize("reason", sorted(PAYER_REASONS))
async def test_a_wallet_that_the_relayer_limits_gets_the_call_to_send_itself(reason: str) -> None:
    kit = {"to": "0x" + "11" * 20, "data": "0x12", "chainId": 8453, "expiresAt": 2}
    trade = submission()
    trade._escape_kit = kit

    async def check() -> NoReturn:
        raise trade_refusals.refused(intent(reason))

    trade.check = check  # type: ignore[method-assign]
    context: Any = SimpleNamespace(
        settings=MagicMock(trust_proxy=False), payments=ConcurrencyLimiter(1, 1), pool=None, watch=None
    )
    with pytest.raises(Problem) as refused:
        await Payments(context, "base", ATTEMPTS, "").run(make_mocked_request("POST", "/"), trade)
    assert (refused.value.code, refused.value.extra["escapeKit"]) == ("rate_limited", kit)
