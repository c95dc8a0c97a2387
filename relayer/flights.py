"""Everything a lane has on its way, in memory: what its holder works with, while the rows are what survives it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence

from core.outbox.states import TRANSITIONS, IntentState, MinedOutcome
from relayer import measures
from relayer.fees import FeeMarket, expected_price
from relayer.flight import Flight
from relayer.payers import PayerBook, PayerKind, PayerRecord

# A block by height and hash.
BlockKey = tuple[int, bytes]


class Flights:
    """What a lane has on its way, and what it has spent.

    unmined: by nonce. mined: by block, until final. verified: the blocks found standing since the last reorg.
    spent_wei: on gas in the last hour; burnt_wei: the part of it that went to what reverted, by whose it was. Both are
    read from the rows now and then, and raised by every receipt in between.

    `writing` is held around every database write of the lane together with the change here that mirrors it.
    """

    def __init__(self, chain: str, lane: str, next_nonce: int) -> None:
        self.chain = chain
        self.lane = lane
        self.next_nonce = next_nonce
        self.unmined: dict[int, Flight] = {}
        self.mined: dict[BlockKey, list[Flight]] = {}
        self.verified: set[BlockKey] = set()
        self.spent_wei = 0
        self.burnt_wei = dict.fromkeys(PayerKind, 0)
        self.writing = asyncio.Lock()
        self.landed = asyncio.Event()

    def load(self, flights: Iterable[Flight]) -> None:
        """Flights as the rows have them."""
        for flight in flights:
            if flight.state is IntentState.MINED:
                self._file_mined(flight)
            else:
                self.unmined[flight.nonce] = flight
        self._show()

    def signed(self, flights: Sequence[Flight], waited_seconds: Sequence[float]) -> None:
        """Freshly signed ones, with how long each was queued."""
        for flight, waited in zip(flights, waited_seconds, strict=True):
            self.unmined[flight.nonce] = flight
            self.next_nonce = max(self.next_nonce, flight.nonce + 1)
            self._measure(flight.kind, IntentState.QUEUED, IntentState.SIGNED, waited)
        self._show()

    def refused(self, kind: str, waited_seconds: float) -> None:
        self._measure(kind, IntentState.QUEUED, IntentState.FAILED, waited_seconds)

    def sent(self, flight: Flight) -> None:
        self._move(flight, IntentState.SENT)

    def landed_in(self, flight: Flight, fee_wei: int) -> None:
        """Mined: its outcome and block are set."""
        self.spent_wei += fee_wei
        if flight.outcome is MinedOutcome.REVERTED:
            self.burnt_wei[flight.payer_kind] += fee_wei
        self._move(flight, IntentState.MINED)
        self.unmined.pop(flight.nonce, None)
        self._file_mined(flight)
        self.landed.set()
        self._show()

    def dropped(self, key: BlockKey) -> list[Flight]:
        """A reorg undid this block: its flights are on their way again, to be sent at once."""
        flights = self.mined.pop(key, [])
        self.verified.discard(key)
        for flight in flights:
            self.reopened(flight)
        return flights

    def reopened(self, flight: Flight) -> None:
        self._move(flight, IntentState.SENT)
        flight.outcome = flight.block_number = flight.block_hash = None
        flight.last_sent_at = flight.used_since = flight.asked_at = flight.taker = None
        self.unmined[flight.nonce] = flight
        self._show()

    def requeued(self, flight: Flight) -> None:
        self._move(flight, IntentState.QUEUED)
        self.unmined.pop(flight.nonce, None)
        self.landed.set()
        self._show()

    def ended(self, key: BlockKey, ends: Iterable[tuple[Flight, IntentState]]) -> None:
        for flight, state in ends:
            self._move(flight, state)
        self.mined.pop(key, None)
        self.verified.discard(key)

    def worst_cost_wei(self) -> int:
        """What everything unmined could cost at most, value included: what the key's balance must cover."""
        return sum(
            each.newest.gas_limit * each.newest.fees.max_fee_wei + (0 if each.cancelling else each.value_wei)
            for each in self.unmined.values()
        )

    def expected_gas_wei(self, market: FeeMarket, kinds: Collection[PayerKind] = tuple(PayerKind)) -> int:
        """What gas for everything unmined, or for some kinds of it, will probably cost, were all of each limit used."""
        return sum(
            each.newest.gas_limit * expected_price(each.newest.fees, market)
            for each in self.unmined.values()
            if each.payer_kind in kinds
        )

    def payer_book(
        self, wallets: dict[bytes, PayerRecord], codes: dict[bytes, PayerRecord], market: FeeMarket, allowance_wei: int
    ) -> PayerBook:
        """These records, with what is on its way."""
        for flight in self.unmined.values():
            if flight.payer in wallets:
                wallets[flight.payer].in_flight += 1
            if flight.payer_code in codes:
                codes[flight.payer_code].in_flight += 1
        flying_wei = self.expected_gas_wei(market, (PayerKind.CONTRACT,))
        return PayerBook(wallets, codes, self.burnt_wei[PayerKind.CONTRACT], flying_wei, allowance_wei)

    def _file_mined(self, flight: Flight) -> None:
        assert flight.block_number is not None
        assert flight.block_hash is not None
        self.mined.setdefault((flight.block_number, flight.block_hash), []).append(flight)

    def _move(self, flight: Flight, state: IntentState) -> None:
        assert (flight.state, state) in TRANSITIONS, f"{flight.state} -> {state}"
        now = time.monotonic()
        self._measure(flight.kind, flight.state, state, now - flight.state_since)
        flight.state, flight.state_since = state, now

    def _measure(self, kind: str, before: IntentState, after: IntentState, seconds: float) -> None:
        measures.CHANGES.labels(self.chain, self.lane, kind, before.value, after.value).inc()
        measures.STATE_SECONDS.labels(self.chain, before.value, after.value).observe(max(0.0, seconds))

    def _show(self) -> None:
        measures.IN_FLIGHT.labels(self.chain, self.lane).set(len(self.unmined))
        measures.NEXT_NONCE.labels(self.chain, self.lane).set(self.next_nonce)
