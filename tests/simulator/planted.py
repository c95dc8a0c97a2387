"""Faults that are put into the service to see that the simulator finds them: mistakes that somebody could make."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from api.agent import reply
from api.agent.errors import problem
from api.agent.trade import refusals
from api.cup.service import CupService, now_utc
from api.stock import outcomes
from core.cup import books, ledger
from core.cup.ledger import wallet_account
from core.cup.trading import PaperOrder, PaperReceipt, simulate
from core.iso import iso
from indexer.fold.agent import AgentFold
from indexer.fold.stock import StockFold
from keeper.agent import pay_job
from keeper.errands import in_batches
from relayer.following import Follower
from tests.simulator.judgement import AUDIT, DOUBLED, LOST, PAID, TRUE


@dataclass(frozen=True)
class Fault:
    """A fault put into the code. `breaks`: the sentences that are false then, no more and no fewer, in the world of
    `seed` and in this weather; without the fault that world is clean. `surface`: the side of the service that this is a
    world of."""

    what: str
    breaks: frozenset[str]
    seed: int
    plant: Callable[[], None]
    surface: str = "agent"
    weather: str = ""


def _forget_what_a_fork_undid() -> None:
    async def nothing(_follower: Follower) -> None:
        return

    Follower._undo_reorged = nothing  # type: ignore[method-assign, assignment]


def _refuse_what_is_on_its_way() -> None:
    def refused(tx_hash: str, kit: dict[str, Any] | None) -> Any:
        return problem("payment_invalid", "Its outcome is not known.", moneyMoved=False, txHash=tx_hash, escapeKit=kit)

    refusals.unknown = refused


def _name_the_head() -> None:
    def freshness(venue: Any) -> dict[str, Any]:
        head = venue.head
        return {"block": head.number + head.lag, "blockAt": iso(head.timestamp), "lagBlocks": head.lag}

    reply.freshness = freshness


def _skip_a_payout() -> None:
    vars(pay_job)["in_batches"] = lambda ready: in_batches(ready[1:])


def _a_fee_too_high() -> None:
    whole = AgentFold._new_stake

    def booked(self: AgentFold, log: Any, event: Any, **fields: Any) -> None:
        whole(self, log, event, **{**fields, "fee": fields["fee"] + 1})

    AgentFold._new_stake = booked  # type: ignore[method-assign, assignment]


def _call_what_is_pending_reverted() -> None:
    whole = outcomes.relay_body

    def body(relayed: Any, tx: bytes, receipt: Literal["confirmed", "pending", "reverted"], **more: Any) -> Any:
        return whole(relayed, tx, "reverted" if receipt == "pending" else receipt, **more)

    vars(outcomes)["relay_body"] = body


def _a_delivery_fee_too_high() -> None:
    whole = StockFold._delivered

    def delivered(self: StockFold, log: Any, event: Any) -> None:
        whole(self, log, event)
        self._position(event.position_id).fee += 1

    StockFold._delivered = delivered  # type: ignore[method-assign, assignment]


def _acknowledge_before_it_is_stored() -> None:
    whole = CupService._place_trade
    storing: set[asyncio.Task[Any]] = set()

    async def placed(self: CupService, order: PaperOrder) -> PaperReceipt:
        task = asyncio.create_task(whole(self, order))
        storing.add(task)
        async with self._pool.connection() as connection:
            market = await books.find(connection, order.slug)
            left = (await ledger.balance(connection, wallet_account(order.wallet)) or 0) - order.size_cents
        return replace(simulate(market, order.side, order.size_cents, left, now_utc()), trade_id=order.trade_id)

    CupService._place_trade = placed  # type: ignore[method-assign]


def _a_cent_too_much() -> None:
    whole = ledger.pay_out

    async def paid_out(connection: Any, kind: str, key: str, account: str, pool: int, paid: dict[str, int]) -> None:
        await whole(connection, kind, key, account, pool, {wallet: cents + 1 for wallet, cents in paid.items()})

    vars(ledger)["pay_out"] = paid_out


_FORKS = "roughness=0.6,fork_rate=0.08,kill_every=,pace=1"
_DEATHS = "kill_every=5000,pace=1"

PLANTED: dict[str, Fault] = {
    "forget": Fault(
        "what a fork undid is not sent again",
        frozenset({LOST, PAID}),
        4,
        _forget_what_a_fork_undid,
        weather="roughness=0,fork_rate=0.15,kill_every=,pace=0.5",
    ),
    "refuse": Fault(
        "a trade on its way is refused",
        frozenset({DOUBLED}),
        2,
        _refuse_what_is_on_its_way,
        weather="block_seconds=7,kill_every=,fork_rate=0,roughness=0.6",
    ),
    "head": Fault("answers name the chain's head", frozenset({TRUE}), 25, _name_the_head),
    "skip": Fault("the first of those to be paid is left out", frozenset({PAID}), 25, _skip_a_payout),
    "fee": Fault("a stake's fee is stored a unit too high", frozenset({AUDIT}), 25, _a_fee_too_high),
    "stock-refuse": Fault(
        "a bet on its way is called reverted",
        frozenset({DOUBLED, TRUE}),
        2,
        _call_what_is_pending_reverted,
        "stock",
        f"{_FORKS},block_seconds=12",
    ),
    "stock-fee": Fault(
        "a payout's fee is stored a unit too high", frozenset({AUDIT}), 109, _a_delivery_fee_too_high, "stock"
    ),
    "cup-early": Fault(
        "a trade is acknowledged before it is stored",
        frozenset({LOST, TRUE}),
        15,
        _acknowledge_before_it_is_stored,
        "cup",
        "break_rate=0.3,kill_every=3000,pace=0.5",
    ),
    "cup-cent": Fault("who is paid gets a cent too much", frozenset({AUDIT}), 1, _a_cent_too_much, "cup", _DEATHS),
}
