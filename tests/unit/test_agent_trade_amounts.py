"""Trade amounts at the limits of the contract's number types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from api.agent.requests import MAX_AMOUNT, TradeRequest
from core.agent.bet import Bet, bet_hash

ASKED = {"marketId": "m", "side": "yes", "sizeUsd": 40, "idemKey": "key-12345678", "walletAddress": "0x" + "a1" * 20}


def _hash(wanted: TradeRequest) -> bytes:
    return bet_hash(
        Bet(
            market_id=bytes(32),
            outcome=0,
            amount=wanted.size,
            min_shares=wanted.required_shares(wanted.size),
            wallet=wanted.wallet,
            idem_hash=bytes(32),
            builder="0x" + "0" * 40,
            ref=bytes(32),
        ),
        1,
        "0x" + "c0" * 20,
    )


@pytest.mark.parametrize("field", ["sizeUsd", "minSharesOut"])
@pytest.mark.parametrize("amount", [2**256, MAX_AMOUNT + 1, Decimal(MAX_AMOUNT) + Decimal("0.000001")])
def test_an_amount_that_no_contract_can_hold_is_refused_with_its_field(field: str, amount: Any) -> None:
    with pytest.raises(ValidationError) as refusal:
        TradeRequest.model_validate({**ASKED, field: amount})
    assert [each["loc"] for each in refusal.value.errors()] == [(field,)]


def test_the_largest_amounts_can_be_signed_for() -> None:
    wanted = TradeRequest.model_validate(
        {**ASKED, "sizeUsd": MAX_AMOUNT, "minSharesOut": MAX_AMOUNT, "maxPriceCents": 1}
    )
    assert len(_hash(wanted)) == 32
    named = TradeRequest.model_json_schema()["properties"]
    assert named["sizeUsd"]["maximum"] == MAX_AMOUNT
