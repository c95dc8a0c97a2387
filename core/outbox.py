"""The callers' side of the transaction outbox: request a transaction, read it and wait for it. The relayer does the
rest.

An accepted intent is mined exactly once, or ends `failed` or `replaced` with a reason. In any other state the outcome
is unknown, which does not mean failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Self

from core.db.channels import OUTBOX_STATE, Resync, listen
from core.db.engine import Connection, ConnectionPool
from core.errors import VpmError
from core.hexadecimal import bytes_of, hex_of
from core.service.cancelling import cancel_and_wait


class IntentState(StrEnum):
    """The state of an intent. The database allows only these changes:

    queued   -> signed    a lane gave it a nonce and stored its signed bytes
             -> failed    refused before it got a nonce: it would revert, it is late, or its dependency failed. It is
                          not queued again, although the database would allow it: a new attempt has a new key
    signed   -> sent      the bytes were offered to a node, which may have accepted them even without a response
             -> mined     found in a block before it was recorded as sent (the process died in between)
             -> queued    a foreign transaction used its nonce, in a block that is deep enough
    sent     -> mined     it has a receipt
             -> queued    as above
    mined    -> sent      a reorg undid its block
             -> final     it succeeded, and its block is final
             -> failed    it reverted, and its block is final
             -> replaced  our no-op took its nonce, and its block is final: the call can never be mined
    final, failed, replaced -> sent   only by a reorg deeper than the configured finality, which also raises an alarm
    """

    QUEUED = "queued"
    SIGNED = "signed"
    SENT = "sent"
    MINED = "mined"
    FINAL = "final"
    FAILED = "failed"
    REPLACED = "replaced"

    @property
    def ended(self) -> bool:
        """Return whether the intent has ended. Only a reorg deeper than finality can undo that."""
        return self in (IntentState.FINAL, IntentState.FAILED, IntentState.REPLACED)

    @property
    def in_flight(self) -> bool:
        """Return whether the intent has a nonce and is not known to be mined."""
        return self in (IntentState.SIGNED, IntentState.SENT)


# Reasons, as in `reason_code`
# It reverted when mined, but the call succeeds on the blocks before and after, so other transactions of its block came
# between; or no node gave the reason. It may be sent again.
OVERTAKEN = "overtaken"
EXPIRED = "expired"  # its deadline passed before it was mined
WALLET_REVERTS = "wallet_reverts"  # too many transactions of its payer reverted within an hour
CODE_REVERTS = "code_reverts"  # too many transactions of wallets with its payer's code reverted within an hour
CONTRACTS_SPENT = "contracts_spent"  # reverts of contract wallets used up their gas limit of an hour
# A payer's transaction with one of these reasons is not sent now, but may be within the hour.
PAYER_REASONS = frozenset({WALLET_REVERTS, CODE_REVERTS, CONTRACTS_SPENT})


class MinedOutcome(StrEnum):
    SUCCEEDED = "succeeded"
    REVERTED = "reverted"
    CANCELLED = "cancelled"  # our no-op was mined in its place


def settled_state(outcome: MinedOutcome) -> IntentState:
    """Return the state of a mined intent whose block is final."""
    return {
        MinedOutcome.SUCCEEDED: IntentState.FINAL,
        MinedOutcome.REVERTED: IntentState.FAILED,
        MinedOutcome.CANCELLED: IntentState.REPLACED,
    }[outcome]


_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class IntentConflict(VpmError):
    """This idempotency key already belongs to another transaction."""

    code = "intent_conflict"
    default_hint = "Use a new key for a new transaction."

    def __init__(self, intent: Intent) -> None:
        self.intent = intent
        super().__init__(f"The key {intent.key} already belongs to another transaction (intent {intent.id}).")


@dataclass(frozen=True, slots=True)
class IntentRequest:
    """A transaction to send once.

    key: unique forever. Enqueueing the same key again changes nothing.
    group: the group of lanes that may send the transaction.
    kind: a short name of what the transaction does, for metrics and people.
    replay_safe: whether the contract itself refuses the transaction a second time. If so, and if a foreign transaction
        took the nonce, the transaction may be sent again without waiting for finality.
    priority: transactions with a higher priority go first.
    not_after: the deadline in Unix seconds of the chain's clock. After the deadline the transaction is refused, or
        cancelled if it was already sent.
    depends_on: the id of an intent that must succeed first.
    payer: the wallet whose signature the transaction carries, if any. Reverts count against that wallet.
    """

    key: str
    chain_id: int
    group: str
    kind: str
    to: str
    data: bytes = b""
    value_wei: int = 0
    replay_safe: bool = False
    priority: int = 0
    not_after: int | None = None
    depends_on: int | None = None
    payer: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.key) <= 300:
            raise ValueError("an idempotency key must have 1 to 300 characters")
        for name in (self.group, self.kind):
            if not _WORD.fullmatch(name):
                raise ValueError(f"{name!r} is not a lower-case word")
        bytes_of(self.to, 20)
        if self.payer is not None:
            bytes_of(self.payer, 20)
        if self.value_wei < 0:
            raise ValueError("value_wei must be at least 0")

    def fingerprint(self) -> bytes:
        """Hash what the transaction does. Gas and priority are left out, because requests for the same transaction may
        differ in them."""
        parts = (
            str(self.chain_id),
            self.group,
            self.to.lower().removeprefix("0x"),
            self.data.hex(),
            str(self.value_wei),
        )
        return hashlib.sha256("\n".join(parts).encode()).digest()


@dataclass(frozen=True, slots=True)
class Intent:
    """A stored intent. `block_number` is the block in which it was mined. For a refused intent, it is the block at
    which the call would have reverted, if known."""

    id: int
    key: str
    state: IntentState
    outcome: MinedOutcome | None
    reason_code: str | None
    reason: str | None
    nonce: int | None
    tx_hash: bytes | None
    block_number: int | None
    gas_used: int | None
    fee_wei: int | None

    @property
    def tx_hash_hex(self) -> str | None:
        return None if self.tx_hash is None else hex_of(self.tx_hash)

    @property
    def succeeded(self) -> bool:
        """Return whether the transaction was mined without a revert. Its block need not be final."""
        return self.outcome is MinedOutcome.SUCCEEDED

    @property
    def may_land(self) -> bool:
        """Return whether the transaction has succeeded or still can. If not, another attempt may be made."""
        return self.succeeded or (not self.state.ended and self.outcome is None)

    @property
    def refused(self) -> bool:
        """Return whether the intent was refused before it got a nonce, so that it can never be mined."""
        return self.state is IntentState.FAILED and self.nonce is None


def intent_columns(table: str = "outbox_intent") -> str:
    """Return the SELECT list for `intent_from_row`."""
    return ", ".join(f"{table}.{each.name}" for each in fields(Intent))


_COLUMNS = intent_columns()
_INSERT = f"""
INSERT INTO outbox_intent (key, fingerprint, chain_id, lane_group, kind, to_address, data, value_wei,
                           replay_safe, priority, not_after, depends_on, payer)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (key) DO NOTHING RETURNING {_COLUMNS}
"""  # noqa: S608 - constants only


async def enqueue(connection: Connection, request: IntentRequest) -> Intent:
    """Queue a transaction and return its intent. If the key already has an intent, return that one instead.

    The insert is part of the caller's database transaction, if there is one. Raise IntentConflict if the existing
    intent is for a different transaction.
    """
    values = (
        request.key,
        request.fingerprint(),
        request.chain_id,
        request.group,
        request.kind,
        bytes_of(request.to),
        request.data,
        request.value_wei,
        request.replay_safe,
        request.priority,
        request.not_after,
        request.depends_on,
        None if request.payer is None else bytes_of(request.payer),
    )
    row = await connection.fetch_one(_INSERT.encode(), values, prepare=True)
    if row is not None:
        return intent_from_row(row)
    query = f"SELECT fingerprint, {_COLUMNS} FROM outbox_intent WHERE key = %s"  # noqa: S608 - constants only
    row = await connection.fetch_one(query.encode(), (request.key,))
    assert row is not None  # only intents whose key is never used again are deleted
    if row[0] != request.fingerprint():
        raise IntentConflict(intent_from_row(row[1:]))
    return intent_from_row(row[1:])


async def read(connection: Connection, intent_id: int) -> Intent | None:
    query = f"SELECT {_COLUMNS} FROM outbox_intent WHERE id = %s"  # noqa: S608 - constants only
    row = await connection.fetch_one(query.encode(), (intent_id,))
    return None if row is None else intent_from_row(row)


def intent_from_row(row: Sequence[Any]) -> Intent:
    intent = Intent(*row)
    return replace(
        intent,
        state=IntentState(intent.state),
        outcome=None if intent.outcome is None else MinedOutcome(intent.outcome),
        fee_wei=None if intent.fee_wei is None else int(intent.fee_wei),
    )


# The states with an outcome (mined or refused), and those with at least a transaction hash.
HAS_RESULT = frozenset({IntentState.MINED, IntentState.FINAL, IntentState.FAILED, IntentState.REPLACED})
HAS_HASH = HAS_RESULT | {IntentState.SENT}

_POLL_SECONDS = 2.0  # a notification may be lost with its connection


class IntentWatch:
    """Watches intents for any number of waiters, over one shared database connection."""

    def __init__(self, url: str, pool: ConnectionPool) -> None:
        self._url = url
        self._pool = pool
        # The states each waiter waits for, by intent and in the order of arrival.
        self._waiting: dict[int, dict[asyncio.Event, frozenset[IntentState]]] = defaultdict(dict)
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._listening = asyncio.create_task(self._listen(), name="outbox watch")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listening is not None:
            await cancel_and_wait(self._listening)

    async def wait(self, intent_id: int, states: frozenset[IntentState], *, timeout_seconds: float) -> Intent:
        """Wait until the intent is in one of `states` or the timeout has passed, and return it as it is then. Raise
        LookupError for an unknown id."""
        moved = asyncio.Event()
        self._waiting[intent_id][moved] = states
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        try:
            while True:
                moved.clear()  # before the read, so that a later change wakes us
                async with self._pool.connection() as connection:
                    intent = await read(connection, intent_id)
                if intent is None:
                    raise LookupError(f"there is no intent {intent_id}")
                left = deadline - asyncio.get_running_loop().time()
                if intent.state in states or left <= 0:
                    return intent
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, _POLL_SECONDS)):
                        await moved.wait()
        finally:
            del self._waiting[intent_id][moved]
            if not self._waiting[intent_id]:
                del self._waiting[intent_id]

    async def _listen(self) -> None:
        async with contextlib.aclosing(listen(self._url, OUTBOX_STATE)) as signals:
            async for moved in signals:
                for intent_id in list(self._waiting) if isinstance(moved, Resync) else moved:
                    for event, states in self._waiting.get(intent_id, {}).items():
                        if isinstance(moved, Resync) or moved[intent_id] in states:
                            event.set()


# The lane groups. An operator decides which keys serve which groups; a key may serve several.
RELAY = "relay"  # users' bets; on Base the holder of RELAYER
KEEPER = "keeper"  # calls that anyone may make: resolve, void, deliver, pay, sweep
OPENER = "opener"  # the key that may list stock markets
LISTER = "lister"  # the key that may list agent markets
CREDIT = "credit"  # the key that books payments sent past the service; on Base the holder of only CREDITOR
PUBLISHER = "publisher"  # the key that may post observations


class LaneStatus(StrEnum):
    """The status of a lane: ready, or why it does not sign new transactions. Whatever the status, the lane keeps
    following the transactions it has sent."""

    STARTING = "starting"  # not yet compared with the chain
    READY = "ready"
    OUT_OF_GAS = "out_of_gas"  # the key cannot pay for one more transaction
    STOP_LOSS = "stop_loss"  # it has used up its hourly gas allowance
    FEES_TOO_HIGH = "fees_too_high"  # the chain's base fee exceeds our cap
    FULL = "full"  # the limit of transactions in flight is reached
    NODE_DOWN = "node_down"  # no RPC URL responds
    SIGNER_DOWN = "signer_down"  # the key service does not sign
    STOPPED = "stopped"  # its relayer released it


def is_gone(status: str, *, is_leased: bool, in_flight: int) -> bool:
    """Return whether a lane was released and is unused. A lane's row stays forever, even if no relayer has its key."""
    return status == LaneStatus.STOPPED and not is_leased and not in_flight


@dataclass(frozen=True, slots=True)
class LaneReport:
    address: bytes
    status: LaneStatus
    detail: str
    leased: bool  # a relayer's lease is valid
    in_flight: int
    balance_wei: int | None  # None: not read yet

    @property
    def works(self) -> bool:
        """Return whether a live relayer signs for the lane, or will do so as soon as the lane has room."""
        return self.leased and self.status in (LaneStatus.READY, LaneStatus.FULL)

    @property
    def is_gone(self) -> bool:
        return is_gone(self.status, is_leased=self.leased, in_flight=self.in_flight)


@dataclass(frozen=True, slots=True)
class GroupReport:
    """The lanes that serve a group on a chain."""

    lanes: tuple[LaneReport, ...]
    queued: int  # intents that wait for these lanes

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
    rows = await connection.fetch_all(_LANES, {"chain_id": chain_id, "group": group})
    lanes = tuple(
        LaneReport(address, LaneStatus(status), detail, leased, in_flight, None if balance is None else int(balance))
        for _, address, status, detail, leased, balance, in_flight in rows
        if address is not None
    )
    return GroupReport(lanes, queued=rows[0][0])


@dataclass(frozen=True, slots=True)
class EndedIntent:
    id: int
    key: str
    is_noop: bool  # it only fills a nonce, and no caller requested it


async def thin_long_ended(connection: Connection, chain_id: int, *, days: int, limit: int) -> list[EndedIntent]:
    """Thin the oldest intents that ended more than `days` days ago: delete everything but key and outcome. Return the
    thinned intents, which stay locked until the database transaction ends.

    The rows remain, so that the keys cannot be used again and the outcomes can still be read. Pass an intent to `drop`
    only if its key can never be enqueued again.
    """
    rows = await connection.fetch_all(
        "UPDATE outbox_intent SET data = '', depends_on = NULL, is_thinned = true WHERE id IN "
        "(SELECT id FROM outbox_intent WHERE chain_id = %s AND state IN ('final', 'failed', 'replaced') "
        "AND NOT is_thinned AND state_at < now() - make_interval(days => %s) ORDER BY state_at LIMIT %s "
        "FOR UPDATE SKIP LOCKED) RETURNING id, key, lane_group = 'noop'",
        (chain_id, days, limit),
    )
    thinned = [EndedIntent(*row) for row in rows]
    await connection.execute("SET LOCAL vpm.outbox_retention = 'on'")  # the tables refuse any other deletion
    for table in (b"outbox_history", b"outbox_transaction"):
        ids = [each.id for each in thinned]
        await connection.execute(b"DELETE FROM " + table + b" WHERE intent_id = ANY(%s)", (ids,))
    await connection.execute("SET LOCAL vpm.outbox_retention = 'off'")
    return thinned


async def drop(connection: Connection, ids: Sequence[int]) -> int:
    """Delete thinned intents and return how many were deleted. Intents that others depend on are kept. The last intent
    of each lane is kept too, because a restored lane continues after that intent's nonce."""
    cursor = await connection.execute(
        "DELETE FROM outbox_intent i WHERE i.id = ANY(%s) AND i.is_thinned "
        "AND NOT EXISTS (SELECT FROM outbox_intent o WHERE o.depends_on = i.id) "
        "AND (i.nonce IS NULL OR i.nonce < (SELECT max(o.nonce) FROM outbox_intent o WHERE o.lane_id = i.lane_id))",
        (list(ids),),
    )
    return cursor.rowcount
