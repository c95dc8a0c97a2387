"""A lane's reads of queued intents from the database, and its checks of their calls before it signs.

Reads take no locks, and their results may be outdated immediately. Two things must never be wrong: whether an intent is
still queued, and which nonce it gets. `relayer.store` decides these again under the lease.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eth_utils.crypto import keccak as keccak256

from core.chain import Block, ChainClient, RpcError, RpcErrorKind
from core.chain.contract import explain
from core.db.engine import Connection, ConnectionPool
from core.hexadecimal import bytes_of, hex_of
from core.outbox import EXPIRED, IntentState, MinedOutcome
from relayer.leases import Lease
from relayer.policy import WINDOW_SECONDS, FeeMarket, LanePolicy, PayerKind, PayerRecord, quote
from relayer.transactions import Call, Candidate, FormerTransaction, IntentRefusal, Prepared

CALL_COLUMNS = b"i.id, i.kind, i.to_address, i.data, i.value_wei, i.not_after, i.replay_safe, i.payer"
CALL_WIDTH = 8
_FORMER = b"""
SELECT t.intent_id, t.lane_id, l.address, t.nonce, t.hash
FROM outbox_transaction t JOIN outbox_lane l ON l.id = t.lane_id
WHERE t.intent_id = ANY(%s) ORDER BY t.intent_id, t.nonce, t.signed_at
"""
# Counts of the outcomes of a payer's or a code's intents in the last `seconds`. A bet that took us over a minute to
# send does not count against its payer: its deadline passed, or the market had moved. Nor does an authorization that
# was used before: a stranger may have used it, and paid as much as we did. If an agent's own payment settled its bet,
# the contract reverts with the idempotency key. A full pot counts, even if this very bet filled it.
_OUTCOMES = b"""
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE i.outcome = 'reverted' AND i.mined_at < i.created_at + interval '1 minute'
            AND coalesce(i.reason_code, '') NOT IN ('AuthorizationSpent', 'AuthorizationAlreadyUsed',
                'AuthorizationUsedOrCanceled', 'AuthorizationAlreadyBooked', 'IdempotencyKeyUsed')) AS reverted,
        count(*) FILTER (WHERE i.outcome = 'succeeded') AS succeeded,
        (SELECT coalesce(sum(number), 0)::bigint FROM in_flight AS f WHERE f.%b = wanted.key) AS in_flight
    FROM outbox_intent i WHERE i.%b = wanted.key AND i.chain_id = %%(chain_id)s AND i.mined_at IS NOT NULL
        AND i.mined_at > now() - make_interval(secs => %%(seconds)s)) AS r
"""
# The record of each wallet (0), with whether it ever settled, and of each code (1). In flight are transactions on any
# lane, and intents that another lane has claimed for signing. Older ones belong to a lane without a relayer: they are
# no longer followed, and must not block their payer forever.
_PAYER_RECORDS = (
    b"""
WITH in_flight (payer, payer_code, number) AS (
    SELECT payer, payer_code, count(*) FROM outbox_intent
    WHERE state IN ('signed', 'sent') AND chain_id = %(chain_id)s
        AND (payer = ANY(%(wallets)s) OR payer_code = ANY(%(codes)s))
        AND state_at > now() - make_interval(secs => %(seconds)s) GROUP BY 1, 2
    UNION ALL
    SELECT i.payer, i.payer_code, count(*) FROM outbox_claim c JOIN outbox_intent i ON i.id = c.intent_id
    WHERE c.lane_id <> %(lane)s AND c.until > clock_timestamp() AND i.state = 'queued' AND i.chain_id = %(chain_id)s
        AND i.payer = ANY(%(wallets)s) GROUP BY 1, 2
)
SELECT 0, wanted.key, r.*, EXISTS (
    SELECT FROM outbox_intent i WHERE i.payer = wanted.key AND i.chain_id = %(chain_id)s AND i.mined_at IS NOT NULL
        AND i.outcome = 'succeeded')
FROM unnest(%(wallets)s::bytea[]) AS wanted (key)"""
    + _OUTCOMES % (b"payer", b"payer")
    + b"""
UNION ALL
SELECT 1, wanted.key, r.*, false FROM unnest(%(codes)s::bytea[]) AS wanted (key)"""
    + _OUTCOMES % (b"payer_code", b"payer_code")
)
# A dead process's claims are replaced by the next lane that wants their intents; the rest are deleted after a while.
_CLAIM = b"""
WITH over AS (DELETE FROM outbox_claim WHERE until < clock_timestamp() - interval '10 minutes')
INSERT INTO outbox_claim AS c (intent_id, lane_id, until)
SELECT id, %s, clock_timestamp() + make_interval(secs => %s) FROM unnest(%s::bigint[]) AS u (id) ORDER BY id
ON CONFLICT (intent_id) DO UPDATE SET lane_id = excluded.lane_id, until = excluded.until
    WHERE c.lane_id = excluded.lane_id OR c.until < clock_timestamp()
RETURNING intent_id
"""
# Group by group, so that each is read from its index in order. The claims are few and read once.
_CANDIDATES = b"""
SELECT next.* FROM unnest(%%(groups)s::text[]) AS g (name) CROSS JOIN LATERAL (
    SELECT %b, extract(epoch FROM clock_timestamp() - i.state_at)::float8, d.state, d.outcome,
        EXISTS (SELECT FROM outbox_transaction t WHERE t.intent_id = i.id), i.priority
    FROM outbox_intent i LEFT JOIN outbox_intent d ON d.id = i.depends_on
    WHERE i.state = 'queued' AND i.chain_id = %%(chain_id)s AND i.lane_group = g.name AND i.id <> ALL(%%(excluded)s)
        AND (i.depends_on IS NULL OR d.state IN ('final', 'failed', 'replaced')
             OR (d.state = 'mined' AND d.outcome = 'succeeded'))
        AND i.id <> ALL (ARRAY(SELECT c.intent_id FROM outbox_claim c
            WHERE c.lane_id <> %%(lane)s AND c.until > clock_timestamp()))
        AND %b
    ORDER BY i.priority DESC, i.id LIMIT %%(limit)s
) AS next ORDER BY next.priority DESC, next.id LIMIT %%(limit)s
"""
_QUEUED = _CANDIDATES % (CALL_COLUMNS, b"true")
# An intent that once had a nonce may have landed; only the chain knows.
_TOO_LATE = _CANDIDATES % (
    CALL_COLUMNS,
    b"i.not_after < %(chain_time)s AND NOT EXISTS (SELECT FROM outbox_transaction t WHERE t.intent_id = i.id)",
)


class LaneQueries:
    """The queries of one lane, and its claims on intents, in autocommit. Two lanes that read at the same moment may
    together let a payer exceed the payer's limit by one batch."""

    def __init__(self, pool: ConnectionPool, lease: Lease) -> None:
        self._pool = pool
        self._lease = lease

    async def queued(self, limit: int, excluded: Sequence[int]) -> list[Candidate]:
        """Return the next intents for this lane's groups whose dependency, if any, has an outcome."""
        return await self._candidates(_QUEUED, limit, excluded)

    async def too_late(self, limit: int, excluded: Sequence[int], chain_time: int) -> list[Candidate]:
        """Return queued intents that never had a nonce and have a deadline before `chain_time`."""
        return await self._candidates(_TOO_LATE, limit, excluded, chain_time=chain_time)

    async def _candidates(self, query: bytes, limit: int, excluded: Sequence[int], **more: int) -> list[Candidate]:
        async with self._pool.connection() as connection:
            rows = await connection.fetch_all(
                query,
                {
                    "chain_id": self._lease.chain_id,
                    "groups": list(self._lease.groups),
                    "excluded": list(excluded),
                    "lane": self._lease.lane_id,
                    "limit": limit,
                    **more,
                },
                prepare=True,
            )
        return [_candidate_from(row) for row in rows]

    async def gas_of_the_hour(self) -> tuple[int, dict[PayerKind, int]]:
        """Return this lane's gas cost in the past hour, in wei, and the part that reverts cost, by kind of payer."""
        async with self._pool.connection() as connection:
            rows = await connection.fetch_all(
                "SELECT outcome = 'reverted', payer IS NOT NULL, payer_code IS NOT NULL, coalesce(sum(fee_wei), 0) "
                "FROM outbox_intent WHERE lane_id = %s AND mined_at IS NOT NULL "
                "AND mined_at > now() - make_interval(secs => %s) GROUP BY 1, 2, 3",
                (self._lease.lane_id, WINDOW_SECONDS),
            )
        burnt = dict.fromkeys(PayerKind, 0)
        for has_reverted, is_signed, has_code, wei in rows:
            if has_reverted:
                burnt[PayerKind.of(is_signed=is_signed, has_code=has_code)] += int(wei)
        return sum(int(wei) for *_, wei in rows), burnt

    async def payer_records(
        self, wallets: Collection[bytes], codes: Collection[bytes]
    ) -> tuple[dict[bytes, PayerRecord], dict[bytes, PayerRecord]]:
        values = {
            "chain_id": self._lease.chain_id,
            "wallets": list(wallets),
            "codes": list(codes),
            "seconds": WINDOW_SECONDS,
            "lane": self._lease.lane_id,
        }
        async with self._pool.connection() as connection:
            rows = await connection.fetch_all(_PAYER_RECORDS, values, prepare=True)
        records: tuple[dict[bytes, PayerRecord], dict[bytes, PayerRecord]] = ({}, {})
        for is_code, key, *record in rows:
            records[is_code][bytes(key)] = PayerRecord(*record)
        return records

    async def former(self, intent_ids: Sequence[int]) -> dict[int, list[FormerTransaction]]:
        """Return every transaction ever signed for these intents, by any lane."""
        async with self._pool.connection() as connection:
            rows = await connection.fetch_all(_FORMER, (list(intent_ids),))
        former: dict[int, list[FormerTransaction]] = {}
        for intent_id, lane_id, address, nonce, digest in rows:
            former.setdefault(intent_id, []).append(FormerTransaction(lane_id, bytes(address), nonce, bytes(digest)))
        return former

    async def claim(self, prepared: Sequence[Prepared], seconds: float) -> list[Prepared]:
        """Claim the intents that no other lane has claimed, and return them. Claims only save slow signers duplicate
        work. Correctness does not depend on them."""
        async with self._pool.connection() as connection:
            ids = [each.call.intent_id for each in prepared]
            ours = {row[0] for row in await connection.fetch_all(_CLAIM, (self._lease.lane_id, seconds, ids))}
        return [each for each in prepared if each.call.intent_id in ours]

    async def unclaim(self, prepared: Sequence[Prepared]) -> None:
        async with self._pool.connection() as connection:
            await end_claims(connection, self._lease.lane_id, prepared)


async def end_claims(connection: Connection, lane_id: int, prepared: Sequence[Prepared]) -> None:
    await connection.execute(
        "DELETE FROM outbox_claim WHERE lane_id = %s AND intent_id = ANY(%s)",
        (lane_id, [each.call.intent_id for each in prepared]),
    )


def call_from(row: tuple[Any, ...]) -> Call:
    """Return the call of a row that begins with CALL_COLUMNS."""
    intent_id, kind, to, data, value_wei, not_after, replay_safe, payer = row[:CALL_WIDTH]
    return Call(intent_id, kind, to, data, int(value_wei), not_after, replay_safe, payer)


def _candidate_from(row: tuple[Any, ...]) -> Candidate:
    age_seconds, state, outcome, had_nonce = row[CALL_WIDTH:-1]
    return Candidate(
        call=call_from(row),
        age_seconds=age_seconds,
        depends_on_state=None if state is None else IntentState(state),
        depends_on_outcome=None if outcome is None else MinedOutcome(outcome),
        had_nonce=had_nonce,
    )


# ---------------------------------------------------------------- checks before a nonce is spent

# How much more gas a call may use than estimated, for example if others were mined first and emptied a slot. Unused gas
# is not paid for.
GAS_MARGIN_PERCENT = 25
MIN_GAS_MARGIN = 100_000
PLAIN_TRANSFER_GAS = 21_000
# The token asks a contract wallet whether its signature is valid, and the wallet may burn all the gas of that call: at
# most this much of ours. A stake costs 195,000; the rest is for the signature, and the dearest in use, a passkey's,
# takes 350,000.
GAS_CEILINGS = {"settle": 600_000, "credit": 600_000}


@dataclass(frozen=True, slots=True)
class CheckTerms:
    """The head, fees and limits by which all candidates of one check are judged."""

    head: Block
    market: FeeMarket
    policy: LanePolicy


@dataclass(slots=True)
class Checked:
    """The candidates of one check, grouped by result. `ready` keeps their order. A refusal in `doubted` holds unless a
    transaction signed earlier for the same intent has landed. `deferred` has the intents without a result yet, with the
    reasons."""

    ready: list[Prepared] = field(default_factory=list)
    refused: list[IntentRefusal] = field(default_factory=list)
    doubted: list[IntentRefusal] = field(default_factory=list)
    deferred: dict[int, str] = field(default_factory=dict)
    out_of_funds: str | None = None

    def refuse(self, refusal: IntentRefusal) -> None:
        """Add a refusal. If the intent once had a nonce, its call may fail only because it has already landed."""
        (self.doubted if refusal.candidate.had_nonce else self.refused).append(refusal)


async def check(client: ChainClient, sender: bytes, candidates: Sequence[Candidate], terms: CheckTerms) -> Checked:
    """Check candidates with one JSON-RPC batch for all calls, and another for the refused ones. A failure of the node
    defers a candidate; only a revert refuses it."""
    checked = Checked()
    estimated: list[Candidate] = []
    for each in candidates:
        refusal = refuse_without_node(each, terms.head)
        if refusal is not None:
            checked.refuse(refusal)
        else:
            estimated.append(each)
    if not estimated:
        return checked
    payers = list({each.call.payer for each in estimated if each.call.payer is not None})
    requests = [_estimate(each, sender, terms.policy.max_gas, "latest") for each in estimated]
    requests += [("eth_getCode", [hex_of(payer), "latest"]) for payer in payers]
    *answers, newest = await client.provider.batch([*requests, ("eth_blockNumber", [])])
    codes = dict(zip(payers, answers[len(estimated) :], strict=True))
    refusals: list[IntentRefusal] = []
    for each, answer in zip(estimated, answers, strict=False):
        refusal = _refusal(each, answer, terms)
        if refusal is not None:
            refusals.append(refusal)
        else:
            _prepare(checked, each, answer, "0x" if each.call.payer is None else codes[each.call.payer], terms)
    for refusal in await _with_blocks(client, sender, refusals, newest, terms) if refusals else ():
        checked.refuse(refusal)
    return checked


async def _with_blocks(
    client: ChainClient, sender: bytes, refusals: list[IntentRefusal], newest: str | RpcError, terms: CheckTerms
) -> list[IntentRefusal]:
    """Check refused calls again at the block number `newest`, because nodes do not say which block "latest" was. Return
    all refusals. Those that still hold at that block get its number."""
    if isinstance(newest, RpcError):
        return refusals
    requests = [_estimate(each.candidate, sender, terms.policy.max_gas, newest) for each in refusals]
    try:
        answers = await client.provider.batch(requests)
    except RpcError:
        return refusals
    located: list[IntentRefusal] = []
    for refusal, answer in zip(refusals, answers, strict=True):
        again = _refusal(refusal.candidate, answer, terms)
        holds = again is not None and again.code == refusal.code
        located.append(replace(refusal, block_number=int(newest, 16)) if holds else refusal)
    return located


def refuse_without_node(candidate: Candidate, head: Block) -> IntentRefusal | None:
    not_after = candidate.call.not_after
    if not_after is not None and head.timestamp > not_after:
        sentence = f"It was not sent in time: its deadline passed {head.timestamp - not_after} s ago."
        return IntentRefusal(candidate, EXPIRED, sentence, head.number)
    if candidate.depends_on_state in (IntentState.FAILED, IntentState.REPLACED) or (
        candidate.depends_on_state is not None and candidate.depends_on_outcome is not MinedOutcome.SUCCEEDED
    ):
        return IntentRefusal(candidate, "dependency_failed", "The transaction it depends on did not succeed.")
    return None


def _ceiling(candidate: Candidate, max_gas: int) -> int:
    return min(max_gas, GAS_CEILINGS.get(candidate.call.kind, max_gas))


def _estimate(candidate: Candidate, sender: bytes, max_gas: int, block: str) -> tuple[str, list[Any]]:
    call = {"from": hex_of(sender), "to": hex_of(candidate.call.to), "data": hex_of(candidate.call.data)}
    if candidate.call.value_wei:
        call["value"] = hex(candidate.call.value_wei)
    if candidate.call.kind in GAS_CEILINGS:
        call["gas"] = hex(_ceiling(candidate, max_gas))
    return "eth_estimateGas", [call, block]


def _refusal(candidate: Candidate, answer: str | RpcError, terms: CheckTerms) -> IntentRefusal | None:
    """Return a refusal if the response to the call is a reason to refuse, otherwise None. Any other error says nothing
    about the intent."""
    if isinstance(answer, RpcError):
        match answer.kind:
            case RpcErrorKind.REVERTED:
                reason = explain(answer, terms.policy.errors)
                return IntentRefusal(candidate, reason.name or "reverted", reason.message)
            case RpcErrorKind.GAS_LIMIT | RpcErrorKind.TX_INVALID:
                return IntentRefusal(candidate, answer.kind.value, answer.message)
        return None
    needed, ceiling = int(answer, 16), _ceiling(candidate, terms.policy.max_gas)
    if needed > ceiling:
        return IntentRefusal(
            candidate, "too_much_gas", f"It needs {needed} gas, but the service pays for at most {ceiling}."
        )
    return None


def _prepare(
    checked: Checked, candidate: Candidate, answer: str | RpcError, code: str | RpcError, terms: CheckTerms
) -> None:
    """Add a candidate that is not refused to `ready` or `deferred`. `code` is the code of the payer's wallet."""
    if isinstance(answer, RpcError):
        if answer.kind is RpcErrorKind.INSUFFICIENT_FUNDS:
            checked.out_of_funds = answer.message
        checked.deferred[candidate.intent_id] = answer.message
        return
    if isinstance(code, RpcError):
        checked.deferred[candidate.intent_id] = code.message
        return
    fees = quote(terms.policy.fees, terms.market)
    if fees is None:
        checked.deferred[candidate.intent_id] = "The base fee is above what this transaction may pay."
        return
    gas = min(with_margin(int(answer, 16)), _ceiling(candidate, terms.policy.max_gas))
    raw = bytes_of(code)
    checked.ready.append(Prepared(candidate, gas, fees, keccak256(raw) if raw else None))


def with_margin(estimate: int) -> int:
    """Return the gas limit to sign: the estimate plus a margin. A margin in percent is rounded down."""
    if estimate <= PLAIN_TRANSFER_GAS:
        return estimate
    return max(estimate * (100 + GAS_MARGIN_PERCENT) // 100, estimate + MIN_GAS_MARGIN)
