"""Which payments sent past us are booked, with what, and when."""

from __future__ import annotations

import pytest

from keeper.agent.crediting import Payment, Sent, Trade, carried, credit_data, why_wait

SETTLE, CREDIT, OTHER = b"\x01" * 4, b"\x02" * 4, b"\x03" * 4
NONCE, KEY = b"\xaa" * 32, b"\xbb" * 32
PAYMENT = Payment(b"\x11" * 20, NONCE, 5_000_000, 1_000)
INTENT = KEY + b"\x00" * 32 + NONCE + b"\xcc" * 65


@pytest.mark.parametrize(("now", "waits"), [(990, True), (1_000, True), (1_059, True), (1_060, False), (9_999, False)])
def test_a_payer_has_a_minute_to_come_back(now: int, waits: bool) -> None:
    assert (why_wait(PAYMENT, now) is not None) == waits


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param([Sent(SETTLE + INTENT, True)], CREDIT + INTENT, id="the failed settlement's intent"),
        pytest.param([Sent(CREDIT + INTENT, True)], CREDIT + INTENT, id="an earlier credit that failed"),
        pytest.param(
            [Sent(CREDIT + INTENT + b"2", True), Sent(SETTLE + INTENT, True)], CREDIT + INTENT + b"2", id="the newest"
        ),
        pytest.param([Sent(SETTLE + INTENT, False)], "under way", id="one that may still land"),
        pytest.param([Sent(SETTLE + INTENT, True), Sent(CREDIT + INTENT, False)], "under way", id="an older one may"),
        pytest.param([], "nobody has told", id="nothing known"),
        pytest.param([Sent(OTHER + INTENT, True)], "nobody has told", id="another call"),
        pytest.param([Sent(SETTLE + KEY + b"\x00" * 64, True)], "nobody has told", id="another payment's"),
        pytest.param([Sent(SETTLE + b"\x00" + INTENT, True)], "nobody has told", id="not as a word of its own"),
    ],
)
def test_what_a_payment_is_booked_with(sent: list[Sent], expected: bytes | str) -> None:
    found = credit_data(PAYMENT, sent, SETTLE, CREDIT)
    if isinstance(expected, bytes):
        assert found == expected
    else:
        assert isinstance(found, str)
        assert expected in found


def test_the_trade_a_payment_belongs_to() -> None:
    mine, other = Trade(KEY, 1), Trade(b"\xdd" * 32, 3)
    assert carried(CREDIT + INTENT, [other, mine]) == mine
    assert carried(CREDIT + INTENT, [other]) is None
    assert carried(CREDIT + INTENT, []) is None
