"""What a portfolio adds up: settled bets alone, in the order of their ends, and over what the page shows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from api.stock.bodies import OwnedPositionBody, OwnerBody, OwnerTotalsBody, SettlementBody
from api.web import figures
from api.web.portfolio import Results, SettledBet, collect_results, results_chart

OWNER = "0x" + "11" * 20


def position(net: int, accepted: int | None, ends: int, *, is_open: bool = False) -> OwnedPositionBody:
    due = SettlementBody(gross="0", fee="0", net=str(net), refund="0", total="0", deliverable=False)
    return OwnedPositionBody(
        id="1",
        market_id="1",
        owner=OWNER,
        side="UP",
        offered="9",
        accepted=None if accepted is None else str(accepted),
        refused="0",
        accrued="0",
        payout=None,
        classic_payout=None,
        seed=False,
        opener=False,
        finalized=accepted is not None,
        refunded=False,
        claimed=False,
        vintage="1",
        settlement=due,
        paid_out=None,
        entered_by=OWNER,
        entered_at=50,
        entry_tx=None,
        payout_tx=None,
        question="Higher?",
        ticker="TSLA",
        href="/m/1",
        phase="live" if is_open else "resolved",
        status="",
        winner=None,
        final_time=ends,
        open=is_open,
    )


def owned(*positions: OwnedPositionBody) -> OwnerBody:
    totals = OwnerTotalsBody(staked="0", accrued="0", paid="0", accepted="0", deliverable="0", open=0)
    return OwnerBody(
        owner=OWNER,
        deployed=True,
        positions=list(positions),
        totals=totals,
        read_at=0,
        stale=False,
        next_before=None,
    )


def bet(pnl: str, status: str) -> dict[str, Any]:
    times = {"filledAt": "1970-01-01T00:01:00Z", "endsAt": "1970-01-01T00:05:00Z"}
    return {**times, "pnlUsd": Decimal(pnl), "status": status}


def test_settled_bets_are_added_up_in_the_order_of_their_ends() -> None:
    stock = owned(position(0, 5, 300), position(9, 4, 200), position(0, 7, 400, is_open=True))
    agent = {"positions": [bet("-2.5", "resolved-lost"), bet("1", "open"), bet("0", "resolved-refunded")]}
    found = collect_results(stock, agent)
    assert found == Results(
        (SettledBet(50, 200, 5), SettledBet(50, 300, -5)), (SettledBet(60, 300, -2_500_000), SettledBet(60, 300, 0))
    )
    assert collect_results(owned(position(0, None, 300)), None) == Results(), "nothing of it was accepted"


def test_the_line_steps_at_each_end_and_says_what_it_comes_to() -> None:
    chart = results_chart(Results((SettledBet(50, 200, 5_000_000), SettledBet(60, 300, -7_250_000)), ()), 400)
    assert chart is not None
    assert list(chart.lines[0].points) == [(50, 0), (200, 5_000_000), (300, -2_250_000), (400, -2_250_000)]
    assert chart.summary == "\N{MINUS SIGN}2.25 USDG over 2 bets."
    assert results_chart(Results(), 400) is None


def test_a_change_has_its_sign() -> None:
    assert figures.signed(1_234_567_891) == "+1,234.56"
    assert figures.signed(-5_000) == "\N{MINUS SIGN}0.00"
    assert figures.signed(0) == "+0.00"
