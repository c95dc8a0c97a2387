"""Lane groups and their status, for the API before it accepts a bet and for health checks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.db.engine import Connection

# The groups. An operator decides which keys serve which; a key may serve several.
RELAY = "relay"  # users' bets; on Base the holder of RELAYER
KEEPER = "keeper"  # calls that anyone may make: resolve, void, deliver, pay, sweep
OPENER = "opener"  # the key that may list stock markets
LISTER = "lister"  # the key that may list agent markets
CREDIT = "credit"  # who books payments that bypassed us; on Base the holder of CREDITOR, and of nothing else
PUBLISHER = "publisher"  # the key that may post observations


class LaneStatus(StrEnum):
    """The reason why a lane signs nothing new, unless it is ready. In every state it follows what it sent."""

    STARTING = "starting"  # not yet compared with the chain
    READY = "ready"
    OUT_OF_GAS = "out_of_gas"  # the key cannot pay for one more transaction
    STOP_LOSS = "stop_loss"  # it has used up its hourly gas allowance
    FEES_TOO_HIGH = "fees_too_high"  # the chain's base fee exceeds our cap
    FULL = "full"  # the limit of transactions in flight is reached
    NODE_DOWN = "node_down"  # no RPC URL answers
    SIGNER_DOWN = "signer_down"  # the key service does not sign
    STOPPED = "stopped"  # its relayer released it


def is_gone(status: str, *, is_leased: bool, in_flight: int) -> bool:
    """Return whether a lane was released, no process holds it and nothing is in flight: its row stays forever, even if
    no relayer has its key any more."""
    return status == LaneStatus.STOPPED and not is_leased and not in_flight


@dataclass(frozen=True, slots=True)
class LaneReport:
    """A lane's status. leased: a relayer's lease on it is valid. balance_wei: None while unknown."""

    address: bytes
    status: LaneStatus
    detail: str
    leased: bool
    in_flight: int
    balance_wei: int | None

    @property
    def works(self) -> bool:
        """Return whether a live relayer holds it and signs, or will as soon as there is room."""
        return self.leased and self.status in (LaneStatus.READY, LaneStatus.FULL)

    @property
    def is_gone(self) -> bool:
        return is_gone(self.status, is_leased=self.leased, in_flight=self.in_flight)


@dataclass(frozen=True, slots=True)
class GroupReport:
    """The lanes that serve one group on one chain, and how many intents wait for them."""

    lanes: tuple[LaneReport, ...]
    queued: int

    @property
    def works(self) -> bool:
        return any(lane.works for lane in self.lanes)

    @property
    def in_flight(self) -> int:
        return sum(lane.in_flight for lane in self.lanes)


# One row without a lane if the group has none.
_LANES = b"""
SELECT q.queued, l.address, l.status, l.status_detail, coalesce(l.lease_until > now(), false), l.balance_wei,
    (SELECT count(*) FROM outbox_intent i WHERE i.lane_id = l.id AND i.state IN ('signed', 'sent'))
FROM (SELECT count(*) AS queued FROM outbox_intent
    WHERE chain_id = %(chain_id)s AND lane_group = %(group)s AND state = 'queued') q
LEFT JOIN outbox_lane l ON l.chain_id = %(chain_id)s AND %(group)s = ANY(l.groups) ORDER BY l.id
"""


async def report(connection: Connection, chain_id: int, group: str) -> GroupReport:
    """Read the status of one group of lanes."""
    rows = await connection.fetch_all(_LANES, {"chain_id": chain_id, "group": group})
    lanes = tuple(
        LaneReport(address, LaneStatus(status), detail, leased, in_flight, None if balance is None else int(balance))
        for _, address, status, detail, leased, balance, in_flight in rows
        if address is not None
    )
    return GroupReport(lanes, queued=rows[0][0])
