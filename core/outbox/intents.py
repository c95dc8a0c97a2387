"""Queueing a transaction, and reading what became of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from core.db.engine import Connection
from core.errors import VpmError
from core.hexadecimal import bytes_of, hex_of
from core.outbox.states import IntentState, MinedOutcome

_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class IntentConflict(VpmError):
    """An error: this idempotency key already belongs to another transaction, that of `intent`."""

    code = "intent_conflict"
    default_hint = "Use a new key for a new transaction."

    def __init__(self, intent: Intent) -> None:
        self.intent = intent
        super().__init__(f"The key {intent.key} already belongs to another transaction (intent {intent.id}).")


@dataclass(frozen=True, slots=True)
class IntentRequest:
    """A transaction to send once.

    key: permanently unique; enqueueing the same key again changes nothing. group: the lanes that may send it. kind: a
    word for metrics and people. to: 0x address; data: call data. gas_limit: gas units; None to estimate before signing,
    so that a call that would revert ends without using a nonce. replay_safe: the contract itself refuses a second
    landing, so after a foreign transaction took its nonce it may be sent again before finality. priority: higher goes
    first. not_after: Unix seconds of the chain's clock; later it is refused, or cancelled if already sent. depends_on:
    the id of an intent that must succeed first. payer: the user's wallet whose signature it carries, if any; its
    reverts count against that wallet.
    """

    key: str
    chain_id: int
    group: str
    kind: str
    to: str
    data: bytes = b""
    value_wei: int = 0
    gas_limit: int | None = None
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
        if self.value_wei < 0 or (self.gas_limit is not None and self.gas_limit < 21_000):
            raise ValueError("value_wei must be at least 0 and gas_limit at least 21000")

    def fingerprint(self) -> bytes:
        """Hash what the transaction does; gas and priority may differ between two requests."""
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
    """An intent as the outbox has it. Fees in wei, hashes as 32 bytes.

    block_number: the block it was mined in; of a refused intent, the block at which its call would have reverted for
    this reason, if known.
    """

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
        """Return whether it was mined successfully, final or not."""
        return self.outcome is MinedOutcome.SUCCEEDED

    @property
    def may_land(self) -> bool:
        """Return whether it was mined successfully or still may be; if not, another attempt may be made."""
        return self.succeeded or (not self.state.ended and self.outcome is None)

    @property
    def refused(self) -> bool:
        """Return whether it was refused before it had a nonce, so that it can never be mined."""
        return self.state is IntentState.FAILED and self.nonce is None


def intent_columns(table: str = "outbox_intent") -> str:
    """List the columns of an Intent for a SELECT, for `intent_from_row`."""
    return ", ".join(f"{table}.{each.name}" for each in fields(Intent))


_COLUMNS = intent_columns()
_INSERT = f"""
INSERT INTO outbox_intent (key, fingerprint, chain_id, lane_group, kind, to_address, data, value_wei, gas_limit,
                           replay_safe, priority, not_after, depends_on, payer)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (key) DO NOTHING RETURNING {_COLUMNS}
"""  # noqa: S608 - constants only


async def enqueue(connection: Connection, request: IntentRequest) -> Intent:
    """Queue one transaction, in the caller's database transaction if it has one.

    If the key exists, return its intent; raise IntentConflict if that is for another transaction.
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
        request.gas_limit,
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
    assert row is not None  # a conflicting key exists: only intents that can never be queued again are deleted
    if row[0] != request.fingerprint():
        raise IntentConflict(intent_from_row(row[1:]))
    return intent_from_row(row[1:])


async def read(connection: Connection, intent_id: int) -> Intent | None:
    query = f"SELECT {_COLUMNS} FROM outbox_intent WHERE id = %s"  # noqa: S608 - constants only
    row = await connection.fetch_one(query.encode(), (intent_id,))
    return None if row is None else intent_from_row(row)


def intent_from_row(row: Sequence[Any]) -> Intent:
    """Build an Intent from the values of `intent_columns`."""
    intent = Intent(*row)
    return replace(
        intent,
        state=IntentState(intent.state),
        outcome=None if intent.outcome is None else MinedOutcome(intent.outcome),
        fee_wei=None if intent.fee_wei is None else int(intent.fee_wei),
    )
