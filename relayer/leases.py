"""Leases decide which process holds which lane. If the holder dies, PostgreSQL frees its session lock on the lane and
another process takes the lane at once. If the holder hangs, its lease runs out. The next holder raises the lane's
epoch, which fences off the former holder's writes."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import psycopg

from core.db.engine import Connection, connect
from core.db.heartbeat import INSTANCE
from core.errors import ConfigError, DatabaseError, VpmError
from core.hexadecimal import hex_of
from core.log import get_logger
from core.outbox import RELAY
from relayer import metrics
from relayer.signing import NamedKey, Signer

log = get_logger(__name__)

_LANE_ID = "SELECT id FROM outbox_lane WHERE chain_id = %s AND address = %s"
# Two-part advisory lock keys: (LOCK_CLASS, lane id), and (LOCK_CLASS, PRESENCE), which every live relayer shares.
LOCK_CLASS = 0x7670_6D72
PRESENCE = 0

TICK_SECONDS = 0.5
ANSWER_SECONDS = 5.0
# A process that has its share leaves a free lane to the others for this long before it takes it.
COURTESY_SECONDS = 2.0
# How long to wait for a transaction that locks a lane whose lease expired.
PATIENCE_MS = 100
# A holder stops this fraction of the lease before the row says so, for clocks and for requests already sent.
MARGIN = 0.2


class LeaseLost(VpmError):
    """Another relayer process may hold this lane now."""

    code = "lease_lost"
    default_retriable = True


@dataclass(slots=True)
class Lease:
    """The right to write for a lane until another process takes the lane. `epoch` rises each time the lane is taken.
    `valid_until` is in monotonic seconds, counted from before the last renewal was requested."""

    lane_id: int
    epoch: int
    chain_id: int
    groups: tuple[str, ...]
    signer: Signer
    valid_until: float

    @property
    def valid(self) -> bool:
        return time.monotonic() < self.valid_until

    def check(self) -> None:
        """Raise LeaseLost if the lease has expired, for example because this process was suspended."""
        if not self.valid:
            raise LeaseLost(f"The lease on lane {self.lane_id} ran out before it was renewed.")


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """A lane whose key this process has."""

    chain: str
    chain_id: int
    groups: tuple[str, ...]
    signer: Signer


def lane_specs(keys: list[NamedKey], chain_ids: Mapping[str, int]) -> list[LaneSpec]:
    """Return the lanes of these keys on the configured chains. A key named twice on a chain is one lane with all its
    groups, because two lanes of one key would compete for its nonces."""
    groups: dict[tuple[str, bytes], list[str]] = {}
    signers: dict[bytes, Signer] = {}
    for key in keys:
        for chain in chain_ids:
            if key.chain in (None, chain):
                signers[key.signer.address] = key.signer
                groups_served = groups.setdefault((chain, key.signer.address), [])
                groups_served += [group for group in key.groups if group not in groups_served]
    return [
        LaneSpec(chain, chain_ids[chain], tuple(served), signers[address])
        for (chain, address), served in groups.items()
    ]


def check_separate_keys(specs: Sequence[LaneSpec], live: Collection[str]) -> None:
    """Raise ConfigError if a key that sends users' bets on a live chain has any other job. Users can make that key's
    lane burn gas until its stop-loss stops it. Nothing else should stop with it."""
    for spec in specs:
        if spec.chain in live and RELAY in spec.groups and len(spec.groups) > 1:
            others = " and ".join([RELAY, *(group for group in spec.groups if group != RELAY)])
            raise ConfigError(
                f"The key {hex_of(spec.signer.address)} serves {others} on {spec.chain}. Bets made to burn its gas "
                "would stop everything it serves.",
                hint=f"Give `{RELAY}` separate keys, as in deployments/compose/.env.example.",
            )


Gain = Callable[[LaneSpec, Lease], None]
Lose = Callable[[Lease], Awaitable[None]]


class Leases:
    """The lanes that this process holds. The callback `gained` must start a lane, and the callback `lost` must end the
    lane before returning."""

    def __init__(self, url: str, specs: Sequence[LaneSpec], *, lease_seconds: float, gained: Gain, lost: Lose) -> None:
        self.by_lane: dict[int, Lease] = {}
        self._url = url
        self._specs = specs
        self._by_id: dict[int, LaneSpec] = {}
        self._seconds = lease_seconds
        self._start_lane = gained
        self._end_lane = lost
        self._holder = uuid.uuid4()
        self._connection: Connection | None = None
        self._locks: set[int] = set()
        self._free_since: dict[int, float] = {}

    async def run(self) -> None:
        """Renew, take and share leases forever. When cancelled, end and release every lane."""
        for spec in self._specs:
            # Prometheus sees no increase in a counter that first appears at 1.
            metrics.HELD.labels(spec.chain, spec.signer.label).set(0)
            metrics.FOREIGN.labels(spec.chain, spec.signer.label)
        try:
            while True:
                try:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await self._tick()
                except (psycopg.Error, DatabaseError, TimeoutError, OSError) as error:
                    log.warning("failed to renew the leases", action="relayer.leases_failed", why=error)
                    await self._disconnect()
                for lane_id in [lane_id for lane_id, lease in self.by_lane.items() if not lease.valid]:
                    log.warning("a lease was not renewed in time", action="relayer.lease_expired", lane_id=lane_id)
                    await self._drop(lane_id)
                await asyncio.sleep(min(TICK_SECONDS, self._seconds / 6))
        finally:
            await self._release_all()

    async def _tick(self) -> None:
        connection = await self._connected()
        await self._renew(connection)
        live = await self._live_processes(connection)
        share = math.ceil(len(self._by_id) / max(1, live))
        if len(self.by_lane) > share:
            await self._release(connection, next(reversed(self.by_lane)))
            return
        for lane_id in self._by_id:
            if lane_id not in self.by_lane:
                await self._try_take(connection, lane_id, wants=len(self.by_lane) < share)

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._locks.clear()
            self._connection = await connect(self._url, application_name="vpm-relayer-leases")
            # The server notices a dead client as soon as we notice a dead server.
            for name, value in (("idle", 5), ("interval", 2), ("count", 2)):
                await self._connection.execute(f"SET tcp_keepalives_{name} = {value}".encode())
            await self._connection.execute("SELECT pg_advisory_lock_shared(%s, %s)", (LOCK_CLASS, PRESENCE))
            if not self._by_id:
                await self._register(self._connection)
        return self._connection

    async def _register(self, connection: Connection) -> None:
        """Find or insert the row of every lane. Remember all rows, or none after an error. Existing rows are only read:
        an INSERT that does nothing would still wait for a suspended process that has changed the row."""
        by_id: dict[int, LaneSpec] = {}
        for spec in self._specs:
            named = (spec.chain_id, spec.signer.address)
            lane_id = await connection.fetch_value(_LANE_ID, named)
            if lane_id is None:
                await connection.execute(
                    "INSERT INTO outbox_lane (chain_id, address, groups) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                    (*named, list(spec.groups)),
                )
                lane_id = await connection.fetch_value(_LANE_ID, named)
            by_id[lane_id] = spec
        self._by_id = by_id

    async def _renew(self, connection: Connection) -> None:
        if not self.by_lane:
            return
        requested_at = time.monotonic()
        rows = await connection.fetch_all(
            "UPDATE outbox_lane l SET lease_until = clock_timestamp() + make_interval(secs => %s) "
            "FROM unnest(%s::int[], %s::bigint[]) AS u (id, epoch) WHERE l.id = u.id AND l.epoch = u.epoch "
            "AND l.holder = %s RETURNING l.id",
            (self._seconds, list(self.by_lane), [lease.epoch for lease in self.by_lane.values()], self._holder),
        )
        renewed = {row[0] for row in rows}
        for lane_id in list(self.by_lane):
            if lane_id in renewed:
                self.by_lane[lane_id].valid_until = requested_at + self._seconds * (1 - MARGIN)
                await self._lock(connection, lane_id)  # again, if the connection is new
            else:
                log.warning("another process took over the lane", action="relayer.lane_taken", lane_id=lane_id)
                await self._drop(lane_id)
                await self._unlock(connection, lane_id)

    async def _live_processes(self, connection: Connection) -> int:
        live = await connection.fetch_value(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %s::bigint::oid "
            "AND objid = %s::bigint::oid AND objsubid = 2 "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            (LOCK_CLASS, PRESENCE),
        )
        return int(live)

    async def _try_take(self, connection: Connection, lane_id: int, *, wants: bool) -> None:
        """Take the lane if no process holds it: its lock is free, or its lease has expired."""
        locked = await self._lock(connection, lane_id)
        if not locked and not await self._expired(connection, lane_id):
            self._free_since.pop(lane_id, None)
            return
        now = time.monotonic()
        if not wants and now - self._free_since.setdefault(lane_id, now) < COURTESY_SECONDS:
            await self._unlock(connection, lane_id)
            return
        spec = self._by_id[lane_id]
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = {PATIENCE_MS}".encode())
                epoch = await connection.fetch_value(
                    "UPDATE outbox_lane SET holder = %s, holder_name = %s, groups = %s, epoch = epoch + 1, "
                    "status = 'starting', status_detail = '', "
                    "lease_until = clock_timestamp() + make_interval(secs => %s) "
                    "WHERE id = %s AND (%s OR lease_until IS NULL OR lease_until < clock_timestamp()) RETURNING epoch",
                    (self._holder, INSTANCE, list(spec.groups), self._seconds, lane_id, locked),
                )
        except psycopg.errors.LockNotAvailable:
            await self._end_session_on(connection, lane_id)  # the next tick takes the lane
            return
        if epoch is None:
            return
        self._free_since.pop(lane_id, None)
        lease = Lease(lane_id, epoch, spec.chain_id, spec.groups, spec.signer, now + self._seconds * (1 - MARGIN))
        self.by_lane[lane_id] = lease
        metrics.HELD.labels(spec.chain, spec.signer.label).set(1)
        log.info("took a lane", action="relayer.lane_gained", chain=spec.chain, lane_id=lane_id, epoch=epoch)
        self._start_lane(spec, lease)

    async def _end_session_on(self, connection: Connection, lane_id: int) -> None:
        """Terminate the session whose transaction holds the lane's row. PostgreSQL's own timeouts miss a client that
        stopped between two messages of a pipeline, or that stopped reading."""
        try:
            ended = await connection.fetch_all(
                "SELECT l.pid, pg_terminate_backend(l.pid) FROM outbox_lane o JOIN pg_locks l "
                "ON l.locktype = 'transactionid' AND l.transactionid = o.xmax AND l.granted WHERE o.id = %s",
                (lane_id,),
            )
            for pid, _ in ended:
                log.warning("terminated a hung session that locked a lane", action="relayer.session_ended",
                            lane_id=lane_id, pid=pid)  # fmt: skip
        except psycopg.errors.InsufficientPrivilege as error:
            log.error("another role's session locks a lane", action="relayer.lane_locked", lane_id=lane_id, exc=error)

    async def _expired(self, connection: Connection, lane_id: int) -> bool:
        over = await connection.fetch_value(
            "SELECT lease_until IS NULL OR lease_until < clock_timestamp() FROM outbox_lane WHERE id = %s", (lane_id,)
        )
        return bool(over)

    async def _lock(self, connection: Connection, lane_id: int) -> bool:
        if lane_id not in self._locks:
            if not await connection.fetch_value("SELECT pg_try_advisory_lock(%s, %s)", (LOCK_CLASS, lane_id)):
                return False
            self._locks.add(lane_id)
        return True

    async def _unlock(self, connection: Connection, lane_id: int) -> None:
        if lane_id in self._locks:
            self._locks.discard(lane_id)
            await connection.execute("SELECT pg_advisory_unlock(%s, %s)", (LOCK_CLASS, lane_id))

    async def _drop(self, lane_id: int) -> None:
        lease = self.by_lane.pop(lane_id)
        lease.valid_until = 0.0
        spec = self._by_id[lane_id]
        metrics.HELD.labels(spec.chain, spec.signer.label).set(0)
        try:
            await self._end_lane(lease)
        finally:
            metrics.forget_lane(spec.chain, spec.signer.label)

    async def _release(self, connection: Connection, lane_id: int) -> None:
        """Release a lane so that another process takes it at once."""
        epoch = self.by_lane[lane_id].epoch
        await self._drop(lane_id)
        await connection.execute(
            "UPDATE outbox_lane SET holder = NULL, holder_name = NULL, lease_until = NULL, status = 'stopped', "
            "status_detail = 'Its relayer released it.' WHERE id = %s AND epoch = %s AND holder = %s",
            (lane_id, epoch, self._holder),
        )
        self._free_since[lane_id] = time.monotonic()
        await self._unlock(connection, lane_id)

    async def _release_all(self) -> None:
        for lane_id in list(self.by_lane):
            released = False
            if self._connection is not None and not self._connection.closed:
                with contextlib.suppress(psycopg.Error, OSError, TimeoutError):
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await self._release(self._connection, lane_id)
                        released = True
            if not released and lane_id in self.by_lane:
                await self._drop(lane_id)
        await self._disconnect()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._locks.clear()
        if connection is not None:
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.close()
