"""`witness`: records pauses and multipliers in the resolver, for the stocks of unsettled markets.

It records every pause when the pause begins, when it ends, and when it spans a strike or close. So no one can choose
which pauses count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select

from core.chain import Contract, RpcError, RpcErrorKind
from core.contracts.abi import abi
from core.db.schema.index_stock import stock_market
from core.hexadecimal import hex_of
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun

REPEAT_SECONDS: Final = 20 * 60
"""The resolver treats witnesses over an hour apart as different pauses, so a long one is witnessed every 20 minutes."""


@dataclass(frozen=True, slots=True)
class StockState:
    """A stock's current state, and the resolver's record of that stock. A stock whose pause cannot be read counts as
    paused. A multiplier that cannot be read is None. `last_pause` is when a pause was last recorded, or 0."""

    paused: bool
    multiplier: int | None
    known_multiplier: int
    last_pause: int
    is_over: bool


def why_witness(state: StockState, moments: Sequence[int], now: int) -> str | None:
    """Return why the resolver must be called now, or None if it need not be. `moments` are the strike and close times
    of unsettled markets."""
    if state.paused:
        if not state.last_pause or state.is_over:
            return "its oracle is paused"
        if now - state.last_pause >= REPEAT_SECONDS:
            return "its oracle is still paused"
        if any(state.last_pause < moment <= now for moment in moments):
            return "its oracle is paused at a strike or a close"
    elif state.last_pause and not state.is_over:
        return "its oracle has resumed"
    if state.multiplier is not None and state.multiplier != state.known_multiplier:
        return f"its multiplier is {state.multiplier}"
    return None


RETRY = RetryWaits(after_success_seconds=5.0, after_failure_seconds=5.0, longest_seconds=60.0)

VIEW_ERRORS = (RpcErrorKind.REVERTED, RpcErrorKind.BAD_ANSWER)
"""Errors that a stock token's views may return. The resolver treats them as a pause."""

MARKETS = stock_market.c


async def witness_stocks(run: JobRun) -> None:
    moments = await _moments(run)
    for stock, state in zip(moments, await _states(run, list(moments)), strict=True):
        why = why_witness(state, moments[stock], run.now)
        if why is None:
            run.report.skip(f"stock {stock}", "unchanged")
            continue
        request = TransactionRequest(
            kind="witness",
            subjects=(f"stock:witness:{stock.lower()}",),
            target=f"stock {stock}",
            detail=f"witness the stock: {why}",
            call=run.chain.contract("RoundResolver").call("witness", stock),
            priority=10,  # before settlements that depend on it
        )
        await run.submit(request, RETRY)


async def _moments(run: JobRun) -> dict[str, list[int]]:
    query = select(MARKETS.stock_token, MARKETS.strike_time, MARKETS.final_time).where(
        MARKETS.closed_tx.is_(None), MARKETS.stock_token.is_not(None)
    )
    moments: dict[str, list[int]] = defaultdict(list)
    for stock, strike, final in await run.rows(query):
        moments[hex_of(stock)] += [strike, final]
    return dict(sorted(moments.items()))


async def _states(run: JobRun, stocks: list[str]) -> list[StockState]:
    resolver = run.chain.contract("RoundResolver")
    calls = []
    for stock in stocks:
        token = Contract(stock, abi("LocalStockToken"))
        calls += [
            token.call("oraclePaused"),
            token.call("uiMultiplier"),
            resolver.call("multiplierAt", stock, run.now),
            resolver.call("lastPause", stock),
        ]
    answers: list[Any] = await run.read_all(calls, VIEW_ERRORS)
    return [
        StockState(
            paused=isinstance(paused, RpcError) or bool(paused),
            multiplier=None if isinstance(multiplier, RpcError) else multiplier,
            known_multiplier=witnessed,
            last_pause=pause[1],
            is_over=pause[2],
        )
        for paused, multiplier, witnessed, pause in zip(
            answers[::4], answers[1::4], answers[2::4], answers[3::4], strict=True
        )
    ]
