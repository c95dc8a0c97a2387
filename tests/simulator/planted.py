"""Faults that are put into the service to see that the simulator finds them: mistakes that somebody could make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from api.agent import reply
from api.agent.errors import problem
from api.agent.trade import refusals
from api.stock import market_view, relay
from core.iso import iso
from indexer.fold.agent import AgentFold
from indexer.fold.stock import StockFold
from indexer.proof import Witness
from keeper.agent import pay_job
from keeper.agent.paying import payments
from keeper.stock import deliver_job
from keeper.stock.delivering import deliveries
from relayer import following
from relayer.following import Follower
from tests.simulator.judgement import AUDIT, DOUBLED, LOST, PAID, TRUE


@dataclass(frozen=True)
class Fault:
    """`breaks`: the sentences that are false then, no more and no fewer, in the world of `seed`; it is None as long as
    no seed is known that shows it. `surface`: the side of the service that this is a world of."""

    what: str
    breaks: frozenset[str]
    seed: int | None
    plant: Callable[[], None]
    surface: str = "agent"


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
    whole = payments
    vars(pay_job)["payments"] = lambda ready: whole(ready[1:])


def _believe_one_node() -> None:
    async def whole(_self: Witness, header: Any, filters: Any, given: Sequence[Any]) -> list[Any]:
        return list(given)

    Witness.whole = whole  # type: ignore[method-assign, assignment]


def _new_nonce_unchecked() -> None:
    vars(following)["nonce_was_taken"] = lambda _flight, **_: True


def _a_fee_too_high() -> None:
    whole = AgentFold._new_stake

    def booked(self: AgentFold, log: Any, event: Any, **fields: Any) -> None:
        whole(self, log, event, **{**fields, "fee": fields["fee"] + 1})

    AgentFold._new_stake = booked  # type: ignore[method-assign, assignment]


def _skip_a_delivery() -> None:
    whole = deliveries
    vars(deliver_job)["deliveries"] = lambda ready: whole(ready[1:])


def _call_what_is_pending_reverted() -> None:
    whole = relay._answer

    def answer(
        bet: Any, tx_hash: str, receipt: Literal["confirmed", "pending", "reverted"], kit: Any, **more: Any
    ) -> Any:
        return whole(bet, tx_hash, "reverted" if receipt == "pending" else receipt, kit, **more)

    vars(relay)["_answer"] = answer


def _name_the_head_of_a_stock_market() -> None:
    whole = market_view.head_body
    vars(market_view)["head_body"] = lambda head: whole(replace(head, number=head.number + head.lag))


def _another_token() -> None:
    whole = StockFold._spec_registered

    def registered(self: StockFold, log: Any, event: Any) -> None:
        whole(self, log, replace(event, stock_token=event.feed))

    StockFold._spec_registered = registered  # type: ignore[method-assign, assignment]


PLANTED: dict[str, Fault] = {
    "forget": Fault("what a fork undid is not sent again", frozenset({LOST, PAID}), None, _forget_what_a_fork_undid),
    "refuse": Fault("a trade on its way is refused", frozenset({DOUBLED}), None, _refuse_what_is_on_its_way),
    "head": Fault("answers name the chain's head", frozenset({TRUE}), 25, _name_the_head),
    "skip": Fault("the first of those to be paid is left out", frozenset({PAID}), 25, _skip_a_payout),
    "believe": Fault("one node's logs are taken for all there are", frozenset({AUDIT, TRUE}), None, _believe_one_node),
    "fee": Fault("a stake's fee is stored a unit too high", frozenset({AUDIT}), 25, _a_fee_too_high),
    "nonce": Fault(
        "a receipt that is late counts as none, and the call gets a new nonce",
        frozenset({DOUBLED}),
        None,
        _new_nonce_unchecked,
    ),
    "stock-forget": Fault(
        "what a fork undid is not sent again", frozenset({LOST, TRUE}), None, _forget_what_a_fork_undid, "stock"
    ),
    "stock-skip": Fault("the first of those to be paid is left out", frozenset({PAID}), 1, _skip_a_delivery, "stock"),
    "stock-refuse": Fault(
        "a bet on its way is called reverted", frozenset({DOUBLED}), None, _call_what_is_pending_reverted, "stock"
    ),
    "stock-head": Fault(
        "a market's page names the chain's head", frozenset({TRUE}), None, _name_the_head_of_a_stock_market, "stock"
    ),
    "stock-token": Fault("a market's stock is stored as its feed", frozenset({AUDIT}), None, _another_token, "stock"),
}
