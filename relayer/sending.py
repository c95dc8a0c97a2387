"""Offering stored bytes to a node, in nonce order, and writing down that they were offered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from core.chain import ChainClient, RpcError, RpcErrorKind
from core.log import get_logger
from core.outbox.states import IntentState
from relayer import measures
from relayer.flight import Attempt, Flight
from relayer.flights import Flights
from relayer.lease import Lease
from relayer.policy import LanePolicy
from relayer.store import LaneStore

log = get_logger(__name__)

# After a batch none of which a node took.
PAUSE_SECONDS = 0.5


class LaneSender:
    """One lane's line to the node. `push` what is stored; `run` sends it. Offering the same bytes twice is harmless."""

    def __init__(
        self, lease: Lease, client: ChainClient, store: LaneStore, flights: Flights, policy: LanePolicy
    ) -> None:
        self.out_of_funds: str | None = None
        self._lease = lease
        self._client = client
        self._store = store
        self._flights = flights
        self._policy = policy
        self._waiting: dict[int, Flight] = {}
        self._pushed = asyncio.Event()
        self._offered: list[Flight] = []
        self._marking = asyncio.Event()

    def push(self, flights: Iterable[Flight]) -> None:
        for flight in flights:
            self._waiting[flight.nonce] = flight
        self._pushed.set()

    def waits(self, flight: Flight) -> bool:
        """True while this flight is still to be offered."""
        return flight.nonce in self._waiting

    async def run(self) -> None:
        while True:
            if not self._waiting:
                self._pushed.clear()
                await self._pushed.wait()
            nonces = sorted(self._waiting)[: self._policy.rpc_batch_size]
            flights = [self._waiting.pop(nonce) for nonce in nonces]
            await self._send([each for each in flights if each.state.in_flight])

    async def mark(self) -> None:
        """Writes down what was offered, as much as there is at a time."""
        while True:
            await self._marking.wait()
            self._marking.clear()
            flights, self._offered = self._offered, []
            flights = [each for each in flights if each.state is IntentState.SIGNED]
            if not flights:
                continue
            async with self._flights.writing:
                moved = await self._store.mark_sent([each for each in flights if each.state is IntentState.SIGNED])
                for flight in flights:
                    if flight.intent_id in moved and flight.state is IntentState.SIGNED:
                        self._flights.sent(flight)

    async def _send(self, flights: list[Flight]) -> None:
        if not flights:
            return
        self._lease.check()
        attempts = [each.newest for each in flights]
        now = asyncio.get_running_loop().time()
        for flight in flights:
            flight.last_sent_at = now
        answers = await self._offer(attempts)
        failed = 0
        for flight, attempt, answer in zip(flights, attempts, answers, strict=True):
            failed += self._judge(flight, attempt, answer)
        if self._offered:
            self._marking.set()
        if failed == len(flights):
            await asyncio.sleep(PAUSE_SECONDS)

    async def _offer(self, attempts: list[Attempt]) -> list[str | RpcError]:
        if len(attempts) > 1:
            return await self._client.send_raw_batch([each.raw for each in attempts])
        try:
            return [await self._client.send_raw(attempts[0].raw)]
        except RpcError as error:
            return [error]

    def _judge(self, flight: Flight, attempt: Attempt, answer: str | RpcError) -> bool:
        """Notes what the node's answer means; True when it did not get as far as the node's pool or chain."""
        if isinstance(answer, str):
            measures.SENDS.labels(self._flights.chain, "accepted").inc()
            self.out_of_funds = None
            self._offered.append(flight)
            return False
        measures.SENDS.labels(self._flights.chain, answer.kind.value).inc()
        match answer.kind:
            case RpcErrorKind.ALREADY_KNOWN | RpcErrorKind.REPLACEMENT_UNDERPRICED:
                # The pool has these bytes, or others with this nonce: what lands is seen by its receipt.
                self._offered.append(flight)
                return False
            case RpcErrorKind.NONCE_TOO_LOW:
                return False  # used: the receipts say by whom
            case RpcErrorKind.INSUFFICIENT_FUNDS:
                self.out_of_funds = answer.message
            case RpcErrorKind.TX_INVALID | RpcErrorKind.GAS_LIMIT | RpcErrorKind.REVERTED:
                # This node will never take it. Another may have: so the nonce is taken by a no-op, and whichever of the
                # two is mined decides.
                if not attempt.is_cancel and flight.doomed is None:
                    flight.doomed = (answer.kind.value, answer.message)
            case _:
                if answer.maybe_delivered:
                    self._offered.append(flight)
        log.warning(
            answer.message,
            action="relayer.not_accepted",
            chain=self._flights.chain,
            nonce=flight.nonce,
            intent=flight.intent_id,
            kind=answer.kind.value,
        )
        return True
