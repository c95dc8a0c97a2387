"""Finds the round of a price feed in effect at a moment, and judges markets by such rounds. The results equal those of
the contracts `RoundFinder` and `RoundResolver`.

The round in effect at T is the last one with `updated_at <= T` in the highest phase that has one. Round ids are `phase
<< 64 | number`; numbers start from 1, and times never fall within a phase. A round counts as absent if it cannot be
read or has `updated_at == 0`. Rounds are read in the contract's order, so the results agree even for feeds that break
these rules. Times are Unix seconds; answers have the feed's 8 decimals.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from core.agent.book import Reading
from core.chain import ChainClient, Contract, ContractReverted, RpcError, RpcErrorKind
from core.contracts.abi import abi
from core.contracts.statuses import PreviewStatus, RoundProblem, StockOutcome, StockReason

MAX_PHASES: Final = 8
"""How many phases are searched: the current one and those before it."""

MAX_NUMBER: Final = 2**64 - 2
"""The highest round number searched in a phase."""

TOO_HIGH: Final = 10**14
"""Valid prices are above 0 and below this."""


@dataclass(frozen=True, slots=True)
class Round:
    id: int
    answer: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class FeedHead:
    """The head of a feed. `latest_round_id` is None if `latestRoundData()` cannot be read."""

    latest_round_id: int | None
    has_code: bool = True


@dataclass(frozen=True, slots=True)
class RoundReading:
    """The round in effect at a moment, or the problem if there is no such round."""

    round: Round | None
    problem: RoundProblem

    @property
    def round_id(self) -> int:
        """Return the round's id or, as contracts expect, 0 if there is no round."""
        return 0 if self.round is None else self.round.id

    @property
    def value(self) -> Reading | None:
        return None if self.round is None else Reading(self.round.answer, self.round.updated_at)


@dataclass(frozen=True, slots=True)
class Spec:
    """The resolver's specification of a stock market. Ages are in seconds."""

    strike_time: int
    final_time: int
    max_strike_age: int
    max_final_age: int


ReadRound: TypeAlias = Callable[[int], Awaitable[Round | None]]


def round_id(phase: int, number: int) -> int:
    return phase << 64 | number


def current_phase(head: FeedHead) -> tuple[int, int, RoundProblem]:
    """Return the feed's phase, its latest round's number and the problem. Both numbers are 0 if there is a problem."""
    if head.latest_round_id is None:
        return 0, 0, RoundProblem.LATEST_UNREADABLE if head.has_code else RoundProblem.NO_FEED
    phase = head.latest_round_id >> 64
    if not 1 <= phase <= 2**16 - 1:
        return 0, 0, RoundProblem.NO_PHASE
    return phase, head.latest_round_id & (2**64 - 1), RoundProblem.OK


async def in_effect_at(head: FeedHead, time: int, read: ReadRound) -> RoundReading:
    phase_now, latest, problem = current_phase(head)
    if problem is not RoundProblem.OK:
        return RoundReading(None, problem)
    oldest = max(1, phase_now - MAX_PHASES + 1)
    for phase in range(phase_now, oldest - 1, -1):
        first = await _at_or_before(round_id(phase, 1), time, read)
        if first is not None:
            last = await _last(first, latest if phase == phase_now else 1, time, read)
            return RoundReading(last, RoundProblem.OK)
    return RoundReading(None, RoundProblem.NO_ROUND if oldest == 1 else RoundProblem.TOO_MANY_PHASES)


async def prove_in_effect_at(head: FeedHead, proposed: int, time: int, read: ReadRound) -> Round | None:
    """Return the round with the id `proposed` if it is the one in effect at `time`, else None."""
    phase_now, _, problem = current_phase(head)
    if problem is not RoundProblem.OK:
        return None
    phase, number = proposed >> 64, proposed & (2**64 - 1)
    if phase == 0 or phase > phase_now or phase_now - phase >= MAX_PHASES or not 1 <= number <= MAX_NUMBER:
        return None
    candidate = await _at_or_before(proposed, time, read)
    if candidate is None or (await _at_or_before(proposed + 1, time, read)) is not None:
        return None
    for later in range(phase + 1, phase_now + 1):
        if (await _at_or_before(round_id(later, 1), time, read)) is not None:
            return None
    return candidate


def judge(spec: Spec, strike: Round, final: Round, *, paused: bool) -> PreviewStatus:
    """Return the verdict, given the rounds in effect at the strike time and at the final time.

    `paused` is True if a pause was witnessed at either time, or if the multiplier changed in between.
    """
    if _out_of_band(strike) or _out_of_band(final):
        return PreviewStatus.BAD_ANSWER
    if spec.strike_time - strike.updated_at > spec.max_strike_age:
        return PreviewStatus.STALE
    if spec.final_time - final.updated_at > spec.max_final_age:
        return PreviewStatus.STALE
    if paused:
        return PreviewStatus.PAUSED
    if final.answer == strike.answer:
        return PreviewStatus.FLAT
    return PreviewStatus.UP if final.answer > strike.answer else PreviewStatus.DOWN


def settlement(status: PreviewStatus) -> tuple[StockOutcome, StockReason] | None:
    """Return the outcome and reason of the `Settled` event for this status, or None if the market cannot be settled
    yet."""
    return _SETTLEMENTS.get(status)


_SETTLEMENTS: Final[dict[PreviewStatus, tuple[StockOutcome, StockReason]]] = {
    PreviewStatus.UP: (StockOutcome.UP, StockReason.ROUNDS),
    PreviewStatus.DOWN: (StockOutcome.DOWN, StockReason.ROUNDS),
    PreviewStatus.FLAT: (StockOutcome.FLAT, StockReason.FLAT),
    PreviewStatus.STALE: (StockOutcome.VOID, StockReason.STALE),
    PreviewStatus.PAUSED: (StockOutcome.VOID, StockReason.PAUSED),
    PreviewStatus.BAD_ANSWER: (StockOutcome.VOID, StockReason.BAD_ANSWER),
}


def _out_of_band(r: Round) -> bool:
    return not 0 < r.answer < TOO_HIGH


async def _at_or_before(asked_id: int, time: int, read: ReadRound) -> Round | None:
    candidate = await read(asked_id)
    return candidate if candidate is not None and candidate.updated_at <= time else None


async def _last(low: Round, hint: int, time: int, read: ReadRound) -> Round:
    """Return the last round at or before `time` in the phase of `low`. `low` is round 1 of that phase and is not after
    `time`.

    Search exponentially from `hint`, then by bisection. The hint only saves reads.
    """
    base = low.id - 1
    lowest, high, step = 1, 0, 1  # high 0: no later or absent round is known yet
    hint = min(hint, MAX_NUMBER)
    if hint > 1:
        earlier = await _at_or_before(base + hint, time, read)
        if earlier is not None:
            lowest, low = hint, earlier
        else:
            high = hint
    while high > lowest + step:
        earlier = await _at_or_before(base + high - step, time, read)
        if earlier is not None:
            lowest, low = high - step, earlier
            break
        high, step = high - step, step * 2
    while high == 0:
        if lowest + step > MAX_NUMBER:
            high = MAX_NUMBER + 1
            break
        earlier = await _at_or_before(base + lowest + step, time, read)
        if earlier is not None:
            lowest, low, step = lowest + step, earlier, step * 2
        else:
            high = lowest + step
    while high - lowest > 1:
        middle = (lowest + high) // 2
        earlier = await _at_or_before(base + middle, time, read)
        if earlier is not None:
            lowest, low = middle, earlier
        else:
            high = middle
    return low


# ---------------------------------------------------------------- reading a feed


class NotRecorded(Exception):
    """A pool feed's reading must be recorded first."""

    def __init__(self, grid_time: int) -> None:
        super().__init__(grid_time)
        self.grid_time = grid_time


class FeedReader:
    """Reads one feed at one block of one node, and reads each round at most once. The methods raise RpcError only if
    the node fails, never because of what the feed returns."""

    def __init__(self, client: ChainClient, address: str, block: int) -> None:
        self.contract = Contract(address, abi("PoolFeed"))  # other feeds have a part of this interface
        self.address = self.contract.address
        self._client = client
        self._block = block
        self._rounds: dict[int, Round | None] = {}
        self._known_head: FeedHead | None = None

    async def deciding_reading(self, moment: int, max_age: int, *, of_pools: bool) -> RoundReading:
        """Return the reading that decides a market at a moment. Raise NotRecorded if a pool feed's reading is not
        recorded yet."""
        if not of_pools:
            return await self.in_effect(moment)
        try:
            round_id, answer, at = await self._client.read(
                self.contract.call("readingAt", moment, max_age), self._block
            )
        except ContractReverted as error:
            if error.name == "NotRecordedYet" and isinstance(grid_time := error.arguments["gridTime"], int):
                raise NotRecorded(grid_time) from None
            return RoundReading(None, RoundProblem.LATEST_UNREADABLE)
        if round_id == 0:
            return RoundReading(None, RoundProblem.NO_ROUND)
        return RoundReading(Round(round_id, answer, at), RoundProblem.OK)

    async def in_effect(self, time: int) -> RoundReading:
        return await in_effect_at(await self._head(), time, self.round)

    async def prove(self, proposed: int, time: int) -> Round | None:
        """Return the round with the id `proposed` if it was in effect at `time`, else None."""
        return await prove_in_effect_at(await self._head(), proposed, time, self.round)

    async def round(self, round_id: int) -> Round | None:
        """Return the round with this id, or None if the feed has none."""
        if round_id not in self._rounds:
            answer = await self._answer("getRoundData", round_id)
            there = answer is not None and answer[3] != 0
            self._rounds[round_id] = Round(round_id, answer[1], answer[3]) if there else None
        return self._rounds[round_id]

    async def _head(self) -> FeedHead:
        if self._known_head is None:
            latest = await self._answer("latestRoundData")
            has_code = latest is not None or bool(await self._client.eth.get_code(self.address, self._block))
            self._known_head = FeedHead(None if latest is None else latest[0], has_code)
        return self._known_head

    async def _answer(self, view: str, *arguments: int) -> Any:
        """Call a view. Return None if it reverts or returns undecodable data: the contracts treat both cases alike."""
        call = self.contract.call(view, *arguments)
        try:
            data = await self._client.simulate(call, self._block)
        except RpcError as error:
            if error.kind is not RpcErrorKind.REVERTED:
                raise
            return None
        try:
            return call.function.decode(data)
        except RpcError:
            return None
