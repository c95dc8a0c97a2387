"""Reads a feed at one block of one node, and finds the round that counts at a moment.

A pool feed returns the reading itself; for other feeds `core.feeds.rounds` finds the round in effect, as the contracts
do.
"""

from __future__ import annotations

from typing import Any

from core.chain import ChainClient, Contract, ContractReverted, RpcError, RpcErrorKind
from core.contracts.abi import abi
from core.contracts.statuses import RoundProblem
from core.feeds.rounds import FeedHead, Round, RoundReading, in_effect_at, prove_in_effect_at


class NotRecorded(Exception):
    """A pool feed's reading must be recorded first."""

    def __init__(self, grid_time: int) -> None:
        super().__init__(grid_time)
        self.grid_time = grid_time


class FeedReader:
    """Reads one feed at one block of one node, each round once. Methods raise RpcError if the node fails, never because
    of what the feed returns."""

    def __init__(self, client: ChainClient, address: str, block: int) -> None:
        self.contract = Contract(address, abi("PoolFeed"))  # other feeds have a part of this interface
        self.address = self.contract.address
        self._client = client
        self._block = block
        self._rounds: dict[int, Round | None] = {}
        self._known_head: FeedHead | None = None

    async def deciding_reading(self, moment: int, max_age: int, *, of_pools: bool) -> RoundReading:
        """Return the reading that decides a market at a moment. Raise NotRecorded while a pool feed's reading must
        still be recorded."""
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
        """Return the round with the id `proposed` if it is the one in effect at a time, else None."""
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
