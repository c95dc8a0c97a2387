"""`witness`: has the resolver remember pauses and multipliers of the stocks of unsettled markets: into a pause, out of
it, and across a strike or bell.

Always made, so whether a pause counts is no one's choice.
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
"""Witnesses over an hour apart have not seen one pause, so a lasting one is witnessed three times an hour."""


@dataclass(frozen=True, slots=True)
class StockState:
    """What a stock says now, and what the resolver remembers of it. `paused` also when it does not say; `multiplier`
    is None when it cannot be read; `last_pause` is the time of the last witness of a pause, 0 where there is none."""

    paused: bool
    multiplier: int | None
    known_multiplier: int
    last_pause: int
    is_over: bool


def why_witness(state: StockState, moments: Sequence[int], now: int) -> str | None:
    """Return why the resolver must be called now, or None. `moments`: strikes and bells of unsettled markets."""
    if state.paused:
        if not state.last_pause or state.is_over:
            return "its oracle is paused"
        if now - state.last_pause >= REPEAT_SECONDS:
            return "its oracle is still paused"
        if any(state.last_pause < moment <= now for moment in moments):
            return "its oracle is paused over a strike or a bell"
    elif state.last_pause and not state.is_over:
        return "its oracle runs again"
    if state.multiplier is not None and state.multiplier != state.known_multiplier:
        return f"its multiplier is {state.multiplier}"
    return None


RETRY = RetryWaits(after_success_seconds=5.0, after_failure_seconds=5.0, longest_seconds=60.0)

SAYS_NOTHING = (RpcErrorKind.REVERTED, RpcErrorKind.BAD_ANSWER)
"""Errors a stock's view may fail with: the contract is not ours, and the resolver treats them as a pause."""

MARKETS = stock_market.c


async def witness_stocks(run: JobRun) -> None:
    moments = await _moments(run)
    for stock, state in zip(moments, await _states(run, list(moments)), strict=True):
        why = why_witness(state, moments[stock], run.now)
        if why is None:
            run.report.skip(f"stock {stock}", "nothing about it is new")
            continue
        request = TransactionRequest(
            kind="witness",
            subjects=(f"stock:witness:{stock.lower()}",),
            target=f"stock {stock}",
            detail=f"witness the stock: {why}",
            call=run.chain.contract("RoundResolver").call("witness", stock),
            priority=10,  # before what settles by it
        )
        await run.ask(request, RETRY)


async def _moments(run: JobRun) -> dict[str, list[int]]:
    """Return strikes and bells of the unsettled markets, by stock."""
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
    answers: list[Any] = await run.read_all(calls, SAYS_NOTHING)
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
