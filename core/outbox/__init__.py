"""The transaction outbox, for code that wants a transaction sent: enqueue, read, wait. The relayer does the rest.

    async with pool.connection() as connection:            # within the caller's transaction, if any
        intent = await enqueue(connection, IntentRequest(key=..., chain_id=..., group=RELAY, kind="enter", ...))
    async with IntentWatch(url, pool) as watch:
        intent = await watch.wait(intent.id, HAS_RESULT, timeout_seconds=10)

An accepted intent is mined exactly once, or ends `failed` or `replaced` with a reason. In any other state its outcome
is unknown, which is never a failure. `core.outbox.states` explains each state.
"""

from core.outbox.intents import (
    Intent,
    IntentConflict,
    IntentRequest,
    enqueue,
    intent_columns,
    intent_from_row,
    read,
)
from core.outbox.lanes import (
    CREDIT,
    KEEPER,
    LISTER,
    OPENER,
    PUBLISHER,
    RELAY,
    GroupReport,
    LaneReport,
    LaneStatus,
    report,
)
from core.outbox.states import (
    ENDED,
    EXPIRED,
    OVERTAKEN,
    PAYER_REASONS,
    IntentState,
    MinedOutcome,
)
from core.outbox.waiting import HAS_HASH, HAS_RESULT, IntentWatch

__all__ = [
    "CREDIT",
    "ENDED",
    "EXPIRED",
    "HAS_HASH",
    "HAS_RESULT",
    "KEEPER",
    "LISTER",
    "OPENER",
    "OVERTAKEN",
    "PAYER_REASONS",
    "PUBLISHER",
    "RELAY",
    "GroupReport",
    "Intent",
    "IntentConflict",
    "IntentRequest",
    "IntentState",
    "IntentWatch",
    "LaneReport",
    "LaneStatus",
    "MinedOutcome",
    "enqueue",
    "intent_columns",
    "intent_from_row",
    "read",
    "report",
]
